// The ring of document tiles in a thread block's shared memory, and the thread block's part of the call.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/library/cuda/hopper_forward.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

namespace sm90 = cuda::sm90;

// A thread block's shared memory.
template <int kHalves, int kWarpgroups>
struct HopperShared {
  // With one warpgroup, two thread blocks share a multiprocessor's shared memory, so each has half as many stages.
  static constexpr int kStages = (kWarpgroups == 1 ? 4 : 8) * (3 - kHalves);
  static constexpr int kTileBytes = kHalves * kHopperTokens * kHopperHalfBytes;

  alignas(1024) uint8_t tokens[kStages][kTileBytes];
  alignas(16) HopperTile tiles[kStages];
  uint64_t full[kStages];   // barrier: the tile has arrived and is described
  uint64_t empty[kStages];  // barrier: every multiplying warp is done with the tile
};

// The size of the scales of one stage's tile. In shared memory, the scales of all stages follow HopperShared. With
// kTokenScales there is one for each token of the tile. Otherwise INT8 has only the document's scale, at index 0.
inline constexpr int kHopperScalesBytes = kHopperTokens * static_cast<int>(sizeof(float));
template <ScalarType kType, bool kTokenScales, class Shared>
inline constexpr int kHopperSharedBytes = static_cast<int>(sizeof(Shared)) + (kType == ScalarType::kI8 || kTokenScales
                                                                                  ? Shared::kStages * kHopperScalesBytes
                                                                                  : 0);

// A warp's position (stage) in the ring, and the shared-memory addresses of this stage's parts of HopperShared
// and of its scales.
template <class Shared>
class HopperRing {
 public:
  __device__ __forceinline__ explicit HopperRing(uint32_t base) : base_(base) {}

  __device__ __forceinline__ uint32_t Tokens() const { return base_ + stage_ * uint32_t{Shared::kTileBytes}; }
  __device__ __forceinline__ uint32_t Tile() const {
    return base_ + static_cast<uint32_t>(offsetof(Shared, tiles) + stage_ * sizeof(HopperTile));
  }
  __device__ __forceinline__ uint32_t Scales() const {
    return base_ + static_cast<uint32_t>(sizeof(Shared)) + stage_ * uint32_t{kHopperScalesBytes};
  }
  __device__ __forceinline__ uint32_t Full() const { return Barrier(offsetof(Shared, full)); }
  __device__ __forceinline__ uint32_t Empty() const { return Barrier(offsetof(Shared, empty)); }
  __device__ __forceinline__ uint32_t parity() const { return parity_; }
  __device__ __forceinline__ void Advance() {
    if (++stage_ < Shared::kStages) return;
    stage_ = 0;
    parity_ ^= 1;
  }

  // Must be called by one thread before any other thread uses the ring.
  __device__ __forceinline__ void Init(int readers) {
    for (; stage_ < Shared::kStages; ++stage_) {
      sm90::InitBarrier(Full(), 2);  // two arrivals: after copies are started, and after the tile is described
      sm90::InitBarrier(Empty(), readers);
    }
    stage_ = 0;
    sm90::FenceBarrierInit();
  }

 private:
  __device__ __forceinline__ uint32_t Barrier(size_t first) const {
    return base_ + static_cast<uint32_t>(first + stage_ * sizeof(uint64_t));
  }

  const uint32_t base_;
  uint32_t stage_ = 0;
  uint32_t parity_ = 0;
};

// A thread block's part of the call.
struct HopperPart {
  int64_t list;
  int64_t row_tile;
  int64_t begin;  // positions in the list
  int64_t end;

  // Thread blocks with the same documents have consecutive numbers, so that they find the documents in the L2 cache.
  __device__ __forceinline__ explicit HopperPart(const HopperForwardParams& p) {
    const HopperForwardPlan& plan = p.plan;
    const int64_t block = blockIdx.x;
    row_tile = block % plan.row_tiles;
    const int64_t split = block / plan.row_tiles % plan.splits;
    list = block / plan.row_tiles / plan.splits;
    begin = split * plan.documents_per_block;
    end = min(begin + plan.documents_per_block, p.forward.problem.list_length);
  }
};

}  // namespace maxsim::library
