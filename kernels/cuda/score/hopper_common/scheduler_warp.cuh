// The dealing warp of the wide and deep kernels: claims the block's chunks and looks up their documents, while another
// warp describes the tiles that those before make.
#pragma once

#include "kernels/cuda/score/hopper_common/chunk_slot.cuh"
#include "kernels/cuda/score/hopper_common/work_queue.cuh"
#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda::sm90 {

// kScales: documents have scales.
template <bool kScales>
class Dealer {
 public:
  __device__ __forceinline__ Dealer(const ScoreParams& params, const ChunkSlot& slot, int lane)
      : queue_(params, lane), writer_(slot, lane) {}

  // A chunk is in the slot, the next one is looked up meanwhile and the claim of a third one asked for. A chunk
  // of an order may be one long document, and a block should not hold such while others have nothing to do: so each is
  // claimed when the one before has been let go.
  __device__ __forceinline__ void Run() {
    Chunk chunk;
#pragma unroll 1
    do {
      if (queue_.IsOrdered()) writer_.WaitUntilFree();
      chunk = queue_.Next();
      queue_.template Place<kScales>(chunk);
      if (chunk.count > 0 && !queue_.IsOrdered()) queue_.AskAhead();
      writer_.Write(chunk);
    } while (chunk.count > 0);
    queue_.Finish();
  }

 private:
  WorkQueue queue_;
  ChunkSlot::Writer writer_;
};

}  // namespace maxsim::cuda::sm90
