// The multiplying warps of the deep kernels, which are for token vectors of 257 to 2,048 bytes. They multiply query
// rows by the document tokens of a tile with wgmma, one chunk of columns (kDeepChunkBytes of each row) after another.
// They keep the maximum of each query row over a document's tokens and, at the document's end, add up these maxima.
//
// A warp has one query tile of 32 rows: 16 rows in each of the two m64 operands of its warpgroup. It starts the
// products of a chunk, waits for those of the previous chunk, and then releases the previous chunk's pipeline stage.
// After a tile's last chunk it takes the maxima and adds up those of the documents that end in the tile. Only then does
// it release the last chunk's stage, and the tile's description (TileHeader: where documents end in the tile).
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/ptx/wgmma.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_deep/params.h"
#include "kernels/cuda/score/hopper_deep/ping_pong.cuh"
#include "kernels/cuda/score/hopper_deep/query_tile_maxima.cuh"
#include "kernels/cuda/score/hopper_deep/ring.cuh"
#include "kernels/plan/hopper_deep_shape.h"
#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, ScoreTile kTile>
class DeepMultiplier {
  using Ring = DeepRing<kTile>;
  static constexpr int kSums = kDeepTokens / 2;
  using Value = Sum<kType>;
  using Sums = Value[kSetsOfQueryTile][kSums];

 public:
  __device__ __forceinline__ DeepMultiplier(const DeepParams& params, const Ring& ring, int warp, int lane)
      : p_(params),
        ring_(ring),
        warp_(warp),
        lane_(lane),
        side_(Ring::kSides == 1 ? 0 : warp / 4),
        ping_pong_(warp / 4, Ring::kSides == 1),
        maxima_(lane) {}

  __device__ __forceinline__ void Run() {
    Sums sums;
#pragma unroll
    for (int s = 0; s < kSetsOfQueryTile; ++s) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[s][i] = 0;
    }
    TakeQueryTile(StartTileOf(blockIdx.x, p_));  // where the block's work begins
    while (true) {
      WaitBarrier(ring_.Full(at_.stage), at_.parity);
      const TileHeader header = TileHeader::Load(ring_.Entry(entry_, side_), lane_);
      if (header.End()) break;
      if (header.NewRows()) TakeQueryTile(header.row_tile);
      if (header.octets == 0) {
        SkipTile();
      } else if (header.octets > TileOctets(kDeepTokens / 2)) {
        MultiplyTile<kDeepTokens>(sums, header);
      } else {
        MultiplyTile<kDeepTokens / 2>(sums, header);
      }
      entry_ = (entry_ + 1) % kDeepTileEntries;
    }
  }

 private:
  __device__ __forceinline__ void TakeQueryTile(int32_t row_tile) {
    maxima_.TakeQueryTile(p_, p_.row_tiles[row_tile], Ring::kSides == 1 ? warp_ : warp_ % 4);
  }

  __device__ __forceinline__ void Release(int stage) const {
    __syncwarp();
    if (lane_ < kReadingLanes) Arrive(ring_.Empty(stage));
  }

  // Releases a tile that only the other warpgroup multiplies.
  __device__ __forceinline__ void SkipTile() {
    for (int32_t chunk = 0; chunk < p_.num_chunks; ++chunk) {
      WaitBarrier(ring_.Full(at_.stage), at_.parity);
      Release(at_.stage);
      at_.Advance(p_.stages);
    }
  }

  template <int N>
  __device__ __forceinline__ void StartProducts(Value (&sums)[kSums], uint64_t query, uint64_t tokens, bool add) {
#pragma unroll
    for (int k = 0; k < kDeepChunkBytes / kStepBytes; ++k) {
      constexpr uint64_t kStep = kStepBytes / 16;
      MultiplyAddShared<kType, N>(sums, query + k * kStep, tokens + k * kStep, k > 0 || add);
    }
    CommitGroup();
  }

  // Multiplies the first N tokens of a tile, and takes their maxima.
  template <int N>
  __device__ __forceinline__ void MultiplyTile(Sums& sums, const TileEnds& ends) {
    int before = 0;
#pragma unroll 1
    for (int32_t chunk = 0; chunk < p_.num_chunks; ++chunk) {
      WaitBarrier(ring_.Full(at_.stage), at_.parity);
      const uint32_t rows = (p_.query_resident != 0 ? ring_.ResidentQuery(chunk) : ring_.StreamedQuery(at_.stage)) +
                            (Ring::kSides == 1 ? warp_ / 4 * (Ring::kSetBytes / 2) : 0);
      const uint64_t query = DescribeOperand(rows);
      const uint64_t tokens = DescribeOperand(ring_.Tokens(at_.stage, side_));
      ping_pong_.Wait();
      FenceOperands();
      StartProducts<N>(sums[0], query, tokens, chunk > 0);
      StartProducts<N>(sums[1], query + Ring::kSetBytes / 16, tokens, chunk > 0);
      ping_pong_.Pass();
      WaitGroups<2>();
      if (chunk > 0) Release(before);
      before = at_.stage;
      at_.Advance(p_.stages);
    }
    WaitGroups<0>();
    Pin<N>(sums[0]);
    Pin<N>(sums[1]);
    maxima_.template Take<N>(sums, ends, ring_.Entry(entry_, side_));
    Release(before);
  }

  const DeepParams& p_;
  const Ring& ring_;
  const int warp_, lane_, side_;
  const PingPong ping_pong_;
  QueryTileMaxima<kType> maxima_;
  DeepPlace at_;
  int32_t entry_ = 0;
};

}  // namespace maxsim::cuda::sm90
