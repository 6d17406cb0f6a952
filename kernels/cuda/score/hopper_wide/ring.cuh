// The ring of token tiles of the wide kernels: their pipeline in shared memory. All addresses are 32-bit addresses of
// shared memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_wide_shape.h"

namespace maxsim::cuda::sm90 {

// Addresses in a WideShared.
template <int kHalves>
class WideRing {
  using Shared = WideShared<kHalves>;

 public:
  static constexpr int kStages = Shared::kStages;
  // The barriers, including those of the slot, lie one after another. kArrivals lanes arrive at each.
  static constexpr int kBarriers = (sizeof(Shared) - offsetof(Shared, described)) / sizeof(uint64_t);
  static constexpr int kArrivals = kWritingLanes;
  static_assert(kBarriers == 4 * kStages + kUnitBarriers);
  static_assert(kWideMultipliers * kReadingLanes == kArrivals && WorkUnitSlot::kArrivals == kArrivals);

  __device__ __forceinline__ explicit WideRing(uint32_t base) : base_(base) {}

  __device__ __forceinline__ uint32_t Tile(int stage) const {
    return At<sizeof(Shared::tiles[0])>(offsetof(Shared, tiles), stage);
  }
  __device__ __forceinline__ uint32_t Entry(int stage) const {
    return At<sizeof(Shared::entries[0])>(offsetof(Shared, entries), stage);
  }
  __device__ __forceinline__ uint32_t Notes(int stage) const {
    return At<sizeof(Shared::notes[0])>(offsetof(Shared, notes), stage);
  }
  __device__ __forceinline__ uint32_t Scratch(int warp) const {
    return At<sizeof(Shared::scratch[0])>(offsetof(Shared, scratch), warp);
  }
  __device__ __forceinline__ uint32_t Weights(int warp) const {
    return At<sizeof(Shared::weights[0])>(offsetof(Shared, weights), warp);
  }
  __device__ __forceinline__ uint32_t Barrier(int number) const {
    return At<sizeof(uint64_t)>(offsetof(Shared, described), number);
  }

  // Returns the slot in which the scheduler warp hands work units to the loading warp.
  __device__ __forceinline__ WorkUnitSlot Slot() const {
    return {base_ + static_cast<uint32_t>(offsetof(Shared, slot)),
            base_ + static_cast<uint32_t>(offsetof(Shared, slot_barriers))};
  }

  __device__ __forceinline__ uint32_t Described(int stage) const {
    return At<sizeof(uint64_t)>(offsetof(Shared, described), stage);
  }
  __device__ __forceinline__ uint32_t Full(int stage) const {
    return At<sizeof(uint64_t)>(offsetof(Shared, full), stage);
  }
  __device__ __forceinline__ uint32_t Whole(int stage) const {
    return At<sizeof(uint64_t)>(offsetof(Shared, whole), stage);
  }
  __device__ __forceinline__ uint32_t Empty(int stage) const {
    return At<sizeof(uint64_t)>(offsetof(Shared, empty), stage);
  }

 private:
  // Returns the address of an element of the array at `offset`. Elements have kBytes bytes.
  template <size_t kBytes>
  __device__ __forceinline__ uint32_t At(size_t offset, int element) const {
    return base_ + static_cast<int32_t>(offset) + element * static_cast<int32_t>(kBytes);
  }

  uint32_t base_;
};

// A position in the ring: a pipeline stage, and the parity of the phase of its barriers. Every warp keeps its own
// position.
template <int kStages>
struct RingPlace {
  int32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void Advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

}  // namespace maxsim::cuda::sm90
