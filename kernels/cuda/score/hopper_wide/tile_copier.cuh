// The copying warp of the wide kernels. For each tile that the loading warp has described, it copies the pieces of
// documents in the tile to shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/tensor_copy.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_wide/ring.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kHalves>
class TileCopier {
  static constexpr int kHalfColumns = kWideHalfBytes / static_cast<int>(SizeOf(kType));
  static constexpr int kOctetBytes = kOctetTokens * kWideHalfBytes;  // of a half
  static_assert(TileOctets(kWideTokens) <= 32);

 public:
  __device__ __forceinline__ TileCopier(const DocumentMaps& maps, WideRing<kHalves> ring, int lane)
      : maps_(maps), ring_(ring), lane_(lane) {}

  __device__ __forceinline__ void Run() const {
    if (lane_ < DocumentMaps::kOctets) PrefetchMap(maps_.octets[lane_]);
    RingPlace<WideRing<kHalves>::kStages> at;
    while (true) {
      WaitBarrier(ring_.Described(at.stage), at.parity);
      TileHeader header;
      header.LoadSize(ring_.Entry(at.stage), lane_);
      const uint32_t full = ring_.Full(at.stage);
      PieceNote piece;
      if (lane_ < header.pieces) piece = PieceNote::Load(ring_.Notes(at.stage), lane_);
      if (lane_ == 0) ArriveExpecting(full, header.octets * kOctetBytes * kHalves);
      __syncwarp();  // from here on the barrier expects the bytes of the copies
      if (lane_ < header.pieces) Copy(piece, ring_.Tile(at.stage), full);
      if (lane_ != 0) Arrive(full);
      if (header.octets == 0) return;
      at.Advance();
    }
  }

 private:
  __device__ __forceinline__ void Copy(const PieceNote& piece, uint32_t tile, uint32_t full) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      CopyBox(tile + half * kWideTokens * kWideHalfBytes + piece.first * kOctetBytes, maps_.octets[piece.octets - 1],
              half * kHalfColumns, piece.row, full);
    }
  }

  const DocumentMaps& maps_;
  const WideRing<kHalves> ring_;
  const int lane_;
};

}  // namespace maxsim::cuda::sm90
