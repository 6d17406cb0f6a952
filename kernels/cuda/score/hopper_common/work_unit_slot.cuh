// A slot in shared memory, through which the scheduler warp hands work units to the loading warp, one at a time. A work
// unit is up to 32 candidates of one row tile (the query rows that a thread block keeps). The scheduler warp claims the
// candidates and looks up where their tokens are. The loading warp decides which of these tokens each token tile holds,
// and describes the tile to the other warps (token_tile.cuh).
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_common/work_queue.cuh"
#include "kernels/plan/hopper_shape.h"

namespace maxsim::cuda::sm90 {

// The addresses of a WorkUnitSpace and of its kUnitBarriers barriers, which must be newly initialised.
class WorkUnitSlot {
 public:
  __device__ __forceinline__ WorkUnitSlot(uint32_t slot, uint32_t barriers) : slot_(slot), barriers_(barriers) {}

  // All lanes of a warp arrive at each of the two barriers.
  static constexpr int kArrivals = kWritingLanes;

  // Initialises the barriers. Not needed if other code has initialised them. One thread calls it.
  __device__ __forceinline__ void InitBarriers() const {
    InitBarrier(Filled(), kArrivals);
    InitBarrier(Taken(), kArrivals);
  }

  // The scheduler warp writes work units one after another, each after the previous one has been released.
  class Writer {
   public:
    __device__ __forceinline__ Writer(const WorkUnitSlot& slot, int lane) : slot_(slot), lane_(lane) {}

    __device__ __forceinline__ void WaitUntilFree() const { WaitBarrier(slot_.Taken(), parity_ ^ 1); }

    __device__ __forceinline__ void Write(const WorkUnit& unit) {
      WaitUntilFree();
      if (lane_ == 0) {
        StoreShared64(slot_.slot_, static_cast<uint32_t>(unit.row_tile),
                      static_cast<uint32_t>(unit.count) | (unit.in_half ? kInHalf : 0));
      }
      if (lane_ < unit.count) {
        StoreShared(slot_.Entry(lane_), unit.position, static_cast<uint32_t>(unit.begin),
                    static_cast<uint32_t>(unit.end - unit.begin), __float_as_uint(unit.scale));
      }
      Arrive(slot_.Filled());
      parity_ ^= 1;
    }

   private:
    const WorkUnitSlot& slot_;
    const int lane_;
    uint32_t parity_ = 0;
  };

  // A work unit as the reader gets it. All members except row_tile, in_half and count describe the lane's own
  // candidate.
  struct Candidates {
    int32_t row_tile = 0;
    bool in_half = false;
    int32_t count = 0;
    uint32_t position = 0;
    int32_t begin = 0;
    int32_t tokens = 0;  // 0: the lane has none
    float scale = 1;
  };

  // The loading warp, which describes token tiles, reads work units.
  class Reader {
   public:
    __device__ __forceinline__ Reader(const WorkUnitSlot& slot, int lane) : slot_(slot), lane_(lane) {}

    // Returns the next work unit. The caller must have released the previous one (LetGo).
    __device__ __forceinline__ Candidates Read() {
      WaitBarrier(slot_.Filled(), parity_);
      parity_ ^= 1;
      uint2 head{};
      if (lane_ == 0) head = LoadShared64(slot_.slot_);
      Candidates unit;
      unit.row_tile = static_cast<int32_t>(__shfl_sync(0xffffffffu, head.x, 0));
      const uint32_t count = __shfl_sync(0xffffffffu, head.y, 0);
      unit.in_half = (count & kInHalf) != 0;
      unit.count = static_cast<int32_t>(count & ~kInHalf);
      if (lane_ < unit.count) {
        uint32_t begin, tokens, scale;
        LoadShared(slot_.Entry(lane_), unit.position, begin, tokens, scale);
        unit.begin = static_cast<int32_t>(begin);
        unit.tokens = static_cast<int32_t>(tokens);
        unit.scale = __uint_as_float(scale);
      }
      return unit;
    }

    // Releases the slot, so that the scheduler warp can write the next work unit to it. Must be called once after each
    // Read.
    __device__ __forceinline__ void LetGo() const { Arrive(slot_.Taken()); }

   private:
    const WorkUnitSlot& slot_;
    const int lane_;
    uint32_t parity_ = 0;
  };

 private:
  __device__ __forceinline__ uint32_t Entry(int lane) const {
    return slot_ + kUnitHeadBytes + static_cast<uint32_t>(lane) * kUnitEntryBytes;
  }
  __device__ __forceinline__ uint32_t Filled() const { return barriers_; }
  __device__ __forceinline__ uint32_t Taken() const { return barriers_ + 8; }

  static constexpr uint32_t kInHalf = 1u << 31;  // beside the count

  const uint32_t slot_, barriers_;
};

}  // namespace maxsim::cuda::sm90
