// Selection on the device: the best k of each query's scores, in rank order. Exact, and the same every time: candidates
// are compared by 64-bit keys (score first, then the smaller position), no two of which are equal.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/call/completion.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {

// One query's part of the buffers. The fields of its plan are PlanSelect's.
struct SelectQuery {
  int64_t scores_offset;   // its candidates' scores, by position; a multiple of kSelectAlignment
  int64_t num_candidates;  // 1 .. 2^32 - 1
  int64_t results_offset;  // its results: k of them
  int64_t keys_offset;     // large selections only: room for SelectPlan::keys()
  int32_t k;               // 1 .. num_candidates
  int32_t splits;          // as planned; 0: a small selection
  int32_t buckets;
  int32_t list_keys;
};

// What the thread blocks of one query's large selection tell each other. Zero before the first launch; the parts marked
// so are zero again after each.
struct SelectWorkspace {
  uint32_t num_done;                                // zero: splits that are done with a step, of all steps
  uint32_t num_left;                                // zero: thread blocks that need nothing of this any more
  uint32_t num_keys;                                // zero: candidates in the common list
  uint32_t num_histograms;                          // zero: histograms that were used
  uint32_t claimed[kMaxSelectSplits];               // zero: 1 for a split that a block has taken
  uint32_t histograms[kSelectPasses][kSelectBins];  // zero
  uint32_t list_sizes[kMaxSelectSplits];
  uint32_t lowest[kMaxSelectSplits];  // scores of each split, in the order of key.cuh
  uint32_t highest[kMaxSelectSplits];
  uint64_t maxima[kMaxSelectBuckets];  // keys; 0: a bucket without scores
};

// The queries of a call: those with large selections first. All in device memory but the results, which may be pinned
// host memory too.
struct SelectCall {
  const SelectQuery* queries;
  const float* scores;
  SelectWorkspace* workspaces;  // one a large selection
  uint64_t* keys;
  DeviceScored* results;
  int32_t num_large;
  int32_t num_small;
  int32_t most_splits;       // of a large selection
  int32_t most_rank_blocks;  // of a small one
  SelectQuery only;          // the query of a call that has only one, which saves a read
};

// Loads the code of the kernels on the current device. `overlap` stays true only if they order themselves
// (FindGridOrder): then they may start while the kernel before them drains. Once a device, before the first launch.
cudaError_t PrepareSelect(bool& overlap);

// Selects: one launch for the large selections, and one for the small ones where there are any. The last of them notes
// its times in `times`, which may be null. `overlap` is what PrepareSelect has left.
cudaError_t LaunchSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream);

// The two kernels.
cudaError_t PrepareLargeSelect(bool& overlap);
cudaError_t LaunchLargeSelect(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream);
cudaError_t PrepareRank(bool& overlap);
cudaError_t LaunchRank(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream);

}  // namespace maxsim::cuda
