// Adds the partial sums of queries that have several query tiles (of 32 tokens). For lists that were scored as their
// union, picks each list's scores. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

// The queries whose partial sums LaunchAddPartials adds. One PartialSums describes one query. All pointers are to
// device memory.
struct PartialSumsCall {
  const PartialSums* sums;   // [num_sums]
  int num_sums;              // 0: there is nothing to do
  const float* partials;     // what the scoring kernels wrote to ScoreParams::partials
  const uint32_t* ordinals;  // ScoreParams::ordinals
  const JoinWord* words;     // of joined lists; not read if no query has joined lists
};

// Loads the code of LaunchAddPartials' kernel on the current device, so that its first launch need not load it. Sets
// `overlap` to false if this kernel must not start before the previous kernel of the stream has ended (FindGridOrder).
cudaError_t PrepareAddPartials(bool& overlap);

// Adds partial sums in the order of query tiles: scores[scores_offset + pass_first + i] = sum over b of
// partials[partials_offset + b * query_tile_stride + i], for i < min(pass_count, num_candidates - pass_first), of each
// of `num_sums` queries. For a query of joined lists, the index of `partials` has the place of candidate i in the union
// instead of i. `overlap` is the value that PrepareAddPartials left in its argument.
cudaError_t LaunchAddPartials(const PartialSumsCall& call, int64_t pass_first, int64_t pass_count, float* scores,
                              bool overlap, cudaStream_t stream);

}  // namespace maxsim::cuda
