// Selection on the device: the best k of each query's scores, in rank order. The result is exact and does not depend on
// the order in which threads run: candidates are compared by 64-bit keys (the score, then the smaller position), and no
// two keys are equal.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/select/completion.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {

// One query's part of a SelectCall's buffers, and its plan (SelectPlan).
struct SelectQuery {
  int64_t scores_offset;   // where the scores of its candidates begin; a multiple of kSelectAlignment
  int64_t num_candidates;  // 1 .. 2^32 - 1
  int64_t results_offset;  // where its k results begin
  int64_t keys_offset;     // large selections only: where the room for SelectPlan::keys() keys begins
  int32_t k;               // 1 .. num_candidates
  int32_t splits;          // 0: a small selection
  int32_t buckets;         // buckets of a split
  int32_t list_keys;       // keys that the list of a split takes
};

// State that the thread blocks of one query's large selection share. All of it is zero before the first launch; the
// members marked "zero" are zero again after each launch.
struct SelectWorkspace {
  uint32_t num_done;                   // zero: splits that have come to the end of a phase, summed over the phases
  uint32_t num_left;                   // zero: thread blocks that have departed: they use nothing of this any more
  uint32_t num_keys;                   // zero: candidates in the common list
  uint32_t num_histograms;             // zero: histograms that were used
  uint32_t claimed[kMaxSelectSplits];  // zero: 1 for a split that a block has taken
  uint32_t histograms[kSelectPasses][kSelectBins];  // zero
  uint32_t list_sizes[kMaxSelectSplits];  // candidates of each split, also those that its list has no room for
  uint32_t lowest[kMaxSelectSplits];      // OrderedBits of each split's lowest score
  uint32_t highest[kMaxSelectSplits];     // OrderedBits of each split's highest score
  uint64_t maxima[kMaxSelectBuckets];     // keys; 0: a bucket without scores
};

// The selections of all queries of a call. The pointers are to device memory; `results` may be to pinned host memory.
struct SelectCall {
  const SelectQuery* queries;  // [num_large + num_small], those with large selections first
  const float* scores;
  SelectWorkspace* workspaces;  // [num_large]
  uint64_t* keys;
  DeviceScored* results;
  int32_t num_large;
  int32_t num_small;
  int32_t most_splits;       // the most splits of a large selection
  int32_t most_rank_blocks;  // the most rank_blocks of a small selection
  SelectQuery only;          // if a call has only one query: that query, passed with the launch to save a read
};

// Loads the code of the kernels on the current device; called once per device, before the first launch. `overlap` stays
// true only if the kernels wait for earlier grids themselves (FindGridOrder): then they may start before the previous
// kernel of the stream has ended.
cudaError_t PrepareSelect(bool& overlap);

// Enqueues the selections: one launch for all large ones, and one for all small ones. A launch without selections is
// left out. The last launch notes its times in `times`, which may be null. `overlap` is the value that PrepareSelect
// left in its argument.
cudaError_t LaunchSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream);

// The functions above call these: PrepareLargeSelect and LaunchLargeSelect for large selections, PrepareRank and
// LaunchRank for small ones.
cudaError_t PrepareLargeSelect(bool& overlap);
cudaError_t LaunchLargeSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream);
cudaError_t PrepareRank(bool& overlap);
cudaError_t LaunchRank(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream);

}  // namespace maxsim::cuda
