// A warp that makes documents' last groups whole: behind a document's last token the group's other tokens become copies
// of it, which changes no maximum. So nobody needs to tell them from the document's own.
#pragma once

#include <cstdint>

#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/token_tile.cuh"
#include "kernels/cuda/sm90/wide_ring.cuh"
#include "kernels/plan.h"
#include "kernels/token_tile.h"

namespace maxsim::cuda::sm90 {

template <int kHalves>
class TailRepeater {
  static constexpr int kParts = kWideHalfBytes / 16;  // of a row, 16 bytes each
  static constexpr int kGroupsAtOnce = 32 / kParts;
  static_assert(TileGroups(kWideTokens) <= 2 * kGroupsOfWord);  // words of `lasts` that are loaded

 public:
  __device__ __forceinline__ TailRepeater(WideRing<kHalves> ring, int lane) : ring_(ring), lane_(lane) {}

  __device__ __forceinline__ void Run() const {
    RingPlace<WideRing<kHalves>::kStages> at;
    while (true) {
      WaitBarrier(ring_.Full(at.stage), at.parity);
      const TileHeader header = TileHeader::Load</*kAll=*/false>(ring_.Entry(at.stage), lane_);
      if (header.ends != 0) {
        RepeatLasts(ring_.Tile(at.stage), header);
        FenceForAsync();
      }
      Arrive(ring_.Whole(at.stage));
      if (header.End()) return;
      at.Advance();
    }
  }

 private:
  // Eight lanes a group, and each has one of the eight parts of a row.
  __device__ __forceinline__ void RepeatLasts(uint32_t tile, const TileEnds& ends) const {
    const uint32_t part = lane_ % kParts;
#pragma unroll 1
    for (int first = 0; first < TileGroups(kWideTokens); first += kGroupsAtOnce) {
      const int group = first + lane_ / kParts;
      const uint32_t last = (first < kGroupsOfWord ? ends.lasts[0] : ends.lasts[1]) >> group % kGroupsOfWord * 3 & 7;
      if ((ends.ends >> group & 1) == 0 || last + 1 == kGroupTokens) continue;
#pragma unroll 1
      for (int half = 0; half < kHalves; ++half) {
        const uint32_t rows = tile + half * kWideTokens * kWideHalfBytes + group * kGroupTokens * kWideHalfBytes;
        uint32_t a, b, c, d;
        LoadShared(Place(rows, last, part), a, b, c, d);
#pragma unroll 1
        for (uint32_t row = last + 1; row < kGroupTokens; ++row) StoreShared(Place(rows, row, part), a, b, c, d);
      }
    }
  }

  // Where the swizzle puts a part of a group's row.
  static __device__ __forceinline__ uint32_t Place(uint32_t rows, uint32_t row, uint32_t part) {
    return rows + row * kWideHalfBytes + (part ^ row) * 16;
  }

  const WideRing<kHalves> ring_;
  const int lane_;
};

}  // namespace maxsim::cuda::sm90
