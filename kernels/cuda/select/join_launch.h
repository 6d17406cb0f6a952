// Joining candidate lists on the device (kernels/plan/list_join.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

// Device memory, but for the counts.
struct JoinCall {
  const JoinedList* lists;
  const JoinedUnion* unions;
  uint32_t* ordinals;  // the lists; the unions are written from their ordinals_begin on
  RowTile* row_tiles;  // of joined lists with num_candidates 0: becomes the union's size
  JoinWord* words;     // [num_words], anything before
  int64_t num_words;   // of all unions
  int64_t most_words;  // of a union
  int64_t longest;     // candidates of a list
  int num_lists;
  int num_unions;
};

// Makes the unions. What scores them and what picks scores from theirs may follow in the stream.
cudaError_t LaunchJoin(const JoinCall& call, cudaStream_t stream);

// Loads the code of LaunchJoin, so that the first call that needs it does not.
cudaError_t PrepareJoin();

}  // namespace maxsim::cuda
