// The ring of token tiles of the wide kernels in shared memory. Addresses are of the shared state space.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/config.h"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/cuda/score/hopper_wide/config.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm90 {

// For rows of kHalves times 128 bytes.
template <int kHalves>
class WideRing {
 public:
  static constexpr int kStages = WideStages(kHalves);
  static constexpr WideLayout kLayout = WideLayoutOf(kHalves);
  // All of them, the slot's too, one behind the other; and how many arrive at each.
  static constexpr int kBarriers = (kLayout.slot_barriers + kUnitBarrierBytes - kLayout.described) / 8;
  static constexpr int kArrivals = kWritingLanes;
  static_assert(kWideMultipliers * kReadingLanes == kArrivals && WorkUnitSlot::kArrivals == kArrivals);

  __device__ __forceinline__ explicit WideRing(uint32_t base) : base_(base) {}

  // Per half of the columns, kWideTokens swizzled rows of 128 bytes.
  __device__ __forceinline__ uint32_t Tile(int stage) const { return base_ + stage * kLayout.stage_bytes; }
  __device__ __forceinline__ uint32_t Entry(int stage) const {
    return base_ + kLayout.entries + stage * TileEntryBytes(kWideMostEnds);
  }
  __device__ __forceinline__ uint32_t Notes(int stage) const {
    return base_ + kLayout.notes + stage * kWideMostEnds * kPieceNoteBytes;
  }
  // Scratch memory and weights of a multiplying warp.
  __device__ __forceinline__ uint32_t Scratch(int warp) const {
    return base_ + kLayout.scratch + warp * kWideMostEnds * kWideEndBytes;
  }
  __device__ __forceinline__ uint32_t Weights(int warp) const {
    return base_ + kLayout.weights + warp * kQueryTileTokens * 4;
  }
  __device__ __forceinline__ uint32_t Barrier(int number) const { return base_ + kLayout.described + number * 8; }

  // How the scheduler warp hands work units to the loading one.
  __device__ __forceinline__ WorkUnitSlot Slot() const { return {base_ + kLayout.slot, base_ + kLayout.slot_barriers}; }

  // The tile is described; it has been copied; documents' last octets are whole; the multiplying warps have let go of
  // it.
  __device__ __forceinline__ uint32_t Described(int stage) const { return base_ + kLayout.described + stage * 8; }
  __device__ __forceinline__ uint32_t Full(int stage) const { return base_ + kLayout.full + stage * 8; }
  __device__ __forceinline__ uint32_t Whole(int stage) const { return base_ + kLayout.whole + stage * 8; }
  __device__ __forceinline__ uint32_t Empty(int stage) const { return base_ + kLayout.empty + stage * 8; }

 private:
  uint32_t base_;
};

// A place in the ring, as every warp keeps its own.
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
