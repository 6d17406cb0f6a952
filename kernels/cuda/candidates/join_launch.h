// Joins candidate lists on the device: kernels/plan/list_join.h says when and why.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

// The pointers are to device memory.
struct JoinCall {
  const JoinedList* lists;
  const JoinedUnion* unions;
  // Input: the candidate lists. Output: the unions, each from its ordinals_begin on.
  uint32_t* ordinals;
  // On input, num_candidates is 0 in the row tiles that score the unions. On output, num_candidates is the size of the
  // union.
  RowTile* row_tiles;
  JoinWord* words;     // [num_words]; may hold anything before
  int64_t num_words;   // of all unions
  int64_t most_words;  // of the largest union
  int64_t longest;     // candidates of the longest list
  int num_lists;
  int num_unions;
};

// Starts the kernels that make the unions. The kernels that score the unions, and those that pick each list's scores
// from them, may be launched next on the same CUDA stream.
cudaError_t LaunchJoin(const JoinCall& call, cudaStream_t stream);

// Loads the code of LaunchJoin's kernels onto the current device, so that the first call that joins lists need not wait
// for it.
cudaError_t PrepareJoin();

}  // namespace maxsim::cuda
