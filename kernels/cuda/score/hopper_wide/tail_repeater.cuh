// A warp that fills up the last octet of each document: it overwrites the tokens after the document's last token with
// copies of that token. Copies change no maximum, so the multiplying warps can treat them like the document's own
// tokens.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_wide/ring.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda::sm90 {

template <int kHalves>
class TailRepeater {
  static constexpr int kParts = kWideHalfBytes / 16;  // of a row, 16 bytes each
  static constexpr int kPiecesAtOnce = 32 / kParts;

 public:
  __device__ __forceinline__ TailRepeater(WideRing<kHalves> ring, int lane) : ring_(ring), lane_(lane) {}

  __device__ __forceinline__ void Run() const {
    RingPlace<WideRing<kHalves>::kStages> at;
    while (true) {
      WaitBarrier(ring_.Full(at.stage), at.parity);
      TileHeader header;
      header.LoadWork(ring_.Entry(at.stage), lane_);
      const int count = __popc(header.ends & TileEnds::kWideOctets);
      if (count > 0) {
        RepeatLasts(ring_.Tile(at.stage), ring_.Notes(at.stage), count);
        FenceForAsync();
      }
      Arrive(ring_.Whole(at.stage));
      if (header.End()) return;
      at.Advance();
    }
  }

 private:
  // Eight lanes serve one document, each for one of the eight parts of a row. Documents that end are the tile's first
  // pieces. Predicated stores take less time than a loop over only the stores that are needed.
  __device__ __forceinline__ void RepeatLasts(uint32_t tile, uint32_t notes, int count) const {
    const uint32_t part = lane_ % kParts;
#pragma unroll 1
    for (int piece = lane_ / kParts; piece < count; piece += kPiecesAtOnce) {
      const PieceNote note = PieceNote::Load(notes, piece);
      const uint32_t octet = tile + (note.first + note.octets - 1) * kOctetTokens * kWideHalfBytes;
#pragma unroll 1
      for (int half = 0; half < kHalves; ++half) {
        const uint32_t rows = octet + half * kWideTokens * kWideHalfBytes;
        uint32_t a, b, c, d;
        LoadShared(Place(rows, note.last, part), a, b, c, d);
#pragma unroll
        for (uint32_t row = 1; row < kOctetTokens; ++row) {
          if (row > note.last) StoreShared(Place(rows, row, part), a, b, c, d);
        }
      }
    }
  }

  // Returns the address at which the swizzle puts a part of an octet's row.
  static __device__ __forceinline__ uint32_t Place(uint32_t rows, uint32_t row, uint32_t part) {
    return rows + row * kWideHalfBytes + (part ^ row) * 16;
  }

  const WideRing<kHalves> ring_;
  const int lane_;
};

}  // namespace maxsim::cuda::sm90
