// Addresses in the shared memory of a deep kernel: a DeepHead, followed by the parts that DeepLayout describes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/cuda/score/hopper_deep/params.h"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_shape.h"

namespace maxsim::cuda::sm90 {

template <ScoreTile kTile>
class DeepRing {
 public:
  static constexpr int kSides = DeepTilesOfStage(kTile);
  static constexpr int kQueryBytes = DeepQueryChunkBytes(kTile);
  static constexpr int kSetBytes = kQueryBytes / 2;
  static constexpr int kQuery = DeepLayoutOf(kTile, {}, 0).query;

  __device__ __forceinline__ DeepRing(uint32_t base, const DeepParams& params)
      : base_(base),
        stages_(base + DeepLayoutOf(kTile, {params.query_resident != 0, 0}, params.num_chunks).stages),
        stage_bytes_(DeepLayoutOf(kTile, {params.query_resident != 0, 0}, 0).stage_bytes),
        tokens_(params.query_resident != 0 ? 0 : kQueryBytes) {}

  // A chunk of the row tile (128 bytes of each query row) has two sets of kSetBytes: the first 16 rows of every query
  // tile, and the last 16 rows.
  __device__ __forceinline__ uint32_t ResidentQuery(int chunk) const { return base_ + kQuery + chunk * kQueryBytes; }
  __device__ __forceinline__ uint32_t StreamedQuery(int stage) const { return stages_ + stage * stage_bytes_; }
  // Returns the address of a chunk of a token tile.
  __device__ __forceinline__ uint32_t Tokens(int stage, int side) const {
    return stages_ + stage * stage_bytes_ + tokens_ + side * kDeepTokensChunkBytes;
  }
  __device__ __forceinline__ uint32_t Full(int stage) const {
    return At<sizeof(uint64_t)>(offsetof(DeepHead, full), stage);
  }
  __device__ __forceinline__ uint32_t Empty(int stage) const {
    return At<sizeof(uint64_t)>(offsetof(DeepHead, empty), stage);
  }
  // Returns the address of an entry: the description of the token tile of one side (one multiplying warpgroup). A stage
  // holds only a chunk of a token tile, so entries have their own numbers, not those of stages.
  __device__ __forceinline__ uint32_t Entry(int entry, int side) const {
    return At<sizeof(DeepHead::entries[0][0])>(offsetof(DeepHead, entries), entry * 2 + side);
  }
  __device__ __forceinline__ uint32_t Notes(int side) const {
    return At<sizeof(DeepHead::notes[0])>(offsetof(DeepHead, notes), side);
  }
  // Returns the slot in which the scheduler warp hands work units to the loading warp.
  __device__ __forceinline__ WorkUnitSlot Slot() const {
    return {base_ + static_cast<uint32_t>(offsetof(DeepHead, slot)),
            base_ + static_cast<uint32_t>(offsetof(DeepHead, slot_barriers))};
  }

 private:
  // Returns the address of an element of the array at `offset`. Elements have kBytes bytes.
  template <size_t kBytes>
  __device__ __forceinline__ uint32_t At(size_t offset, int element) const {
    return base_ + static_cast<int32_t>(offset) + element * static_cast<int32_t>(kBytes);
  }

  const uint32_t base_, stages_;
  const int32_t stage_bytes_, tokens_;
};

// A position in the ring: a pipeline stage, and the parity of the phase of its barriers. Every warp keeps its own
// position.
struct DeepPlace {
  int32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void Advance(int32_t stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
};

}  // namespace maxsim::cuda::sm90
