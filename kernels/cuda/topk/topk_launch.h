// Selection on the device: the best k of each query's scores, in rank order. Exact, and the same every time: candidates
// are compared by 64-bit keys (score first, then the smaller position), no two of which are equal.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/plan.h"

namespace maxsim::cuda {

// One query's part of the buffers.
struct SelectQuery {
  int64_t scores_offset;   // its candidates' scores, by position
  int64_t num_candidates;  // 1 .. 2^32 - 1
  int64_t results_offset;  // its results: min(k, num_candidates) of them
  int64_t keys_offset;     // radix selection only: room for k keys
  int32_t k;               // 1 .. num_candidates
  int32_t radix_idx;       // index among the queries that need radix selection; -1: none needed
};

// Scored (kernels/maxsim.h) as the device writes it.
struct DeviceScored {
  float score;
  uint32_t position;
};

// What the radix selection of one query knows after a pass: the digits of the k-th key found so far.
struct SelectState {
  uint64_t prefix;  // the digits, right-aligned
  uint32_t need;    // keys still wanted among those with this prefix
  uint32_t done;    // 1: all keys with this prefix are wanted, later digits do not matter
};

// Workspace of radix selection, a query: to be zeroed before the first pass.
struct SelectWorkspace {
  uint32_t histogram[kSelectPasses][kSelectBins];
  SelectState state[kSelectPasses + 1];
  uint32_t num_keys;  // collected so far
  uint32_t unused[3];
};

// Loads the code of the kernels below, so that the first call that needs them does not.
cudaError_t PrepareRadixSelect();
cudaError_t PrepareRank();

// Cuts queries with radix_idx >= 0 down to their best k keys, in any order: keys[keys_offset ..]. One launch a digit
// and one to collect, `queries` and all buffers in device memory.
cudaError_t LaunchRadixSelect(const SelectPlan& plan, const SelectQuery* queries, int num_queries, const float* scores,
                              SelectWorkspace* workspaces, uint64_t* keys, cudaStream_t stream);

// Ranks what is left of every query (its keys, or all its scores) and writes the best k in order.
cudaError_t LaunchRank(const SelectPlan& plan, const SelectQuery* queries, int num_queries, const float* scores,
                       const uint64_t* keys, DeviceScored* results, cudaStream_t stream);

}  // namespace maxsim::cuda
