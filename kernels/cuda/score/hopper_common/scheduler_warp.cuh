// The scheduler warp of the wide and deep kernels. The warp claims the thread block's work units (up to 32 candidates
// each) and looks up where their documents are. Meanwhile the loading warp cuts the documents of earlier work units
// into token tiles.
#pragma once

#include "kernels/cuda/score/hopper_common/params.h"
#include "kernels/cuda/score/hopper_common/work_queue.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"

namespace maxsim::cuda::sm90 {

// kScales: documents have scales.
template <bool kScales>
class SchedulerWarp {
 public:
  __device__ __forceinline__ SchedulerWarp(const WorkQueueParams& params, const WorkUnitSlot& slot, int lane)
      : queue_(params, lane), writer_(slot, lane) {}

  // While one work unit is in the slot, the warp looks up the next one and has already asked for the claim of a third.
  // If candidates are ordered, a work unit may be one long document, which a thread block should not hold while others
  // have nothing to do. So with ordered candidates, a work unit is claimed only after the previous one has been
  // released.
  __device__ __forceinline__ void Run() {
    WorkUnit unit;
#pragma unroll 1
    do {
      if (queue_.IsOrdered()) writer_.WaitUntilFree();
      unit = queue_.Next();
      queue_.template Locate<kScales>(unit);
      if (unit.count > 0 && !queue_.IsOrdered()) queue_.AskAhead();
      writer_.Write(unit);
    } while (unit.count > 0);
    queue_.Finish();
  }

 private:
  WorkQueue queue_;
  WorkUnitSlot::Writer writer_;
};

}  // namespace maxsim::cuda::sm90
