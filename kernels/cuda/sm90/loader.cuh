// The loading warp: walks the block's documents and keeps the ring of token tiles full.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/document_maps.h"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/ptx/tensor_copy.cuh"
#include "kernels/cuda/sm90/tile_word.cuh"
#include "kernels/cuda/sm90/work_queue.cuh"
#include "kernels/plan.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// The ring in shared memory, for rows of kHalves times 128 bytes. Addresses are of the shared state space.
template <int kHalves>
class Ring {
 public:
  static constexpr int kStages = WideStages(kHalves);
  static constexpr WideLayout kLayout = WideLayoutOf(kHalves);

  __device__ __forceinline__ explicit Ring(uint32_t base) : base_(base) {}

  // Per half of the columns, kWideTokens swizzled rows of 128 bytes.
  __device__ __forceinline__ uint32_t Tile(int stage) const { return base_ + stage * kLayout.stage_bytes; }
  __device__ __forceinline__ uint32_t Full(int stage) const { return base_ + kLayout.full + stage * 8; }
  __device__ __forceinline__ uint32_t Empty(int stage) const { return base_ + kLayout.empty + stage * 8; }
  // Entries follow one another whatever the stage.
  __device__ __forceinline__ uint32_t Entry(int entry) const {
    return base_ + kLayout.entries + entry * static_cast<int>(sizeof(TileEntry));
  }
  // [kWideMultipliers][kBlockTokens] weights of the warps' blocks.
  __device__ __forceinline__ uint32_t Weight(int warp, int row) const {
    return base_ + kLayout.weights + (warp * kBlockTokens + row) * 4;
  }
  // Scale of the document that the warp will sum next: lane 0's place, and one that the other lanes share.
  __device__ __forceinline__ uint32_t EndedScale(int warp, int lane) const {
    return base_ + kLayout.ended_scales + warp * 8 + (lane != 0 ? 4 : 0);
  }

 private:
  uint32_t base_;
};

// A place in the ring, as every warp keeps its own.
template <int kStages>
struct RingPlace {
  int32_t stage = 0;
  uint32_t parity = 0;
  int32_t entry = 0;

  __device__ __forceinline__ void Advance() {
    entry = (entry + 1) % kWideTileEntries;
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

template <ScalarType kType, int kHalves>
class Loader {
  static constexpr bool kQuantized = kType == ScalarType::kI8;
  static constexpr int32_t kGrain = WideTokenGrain(kType, kHalves);
  static constexpr int kHalfColumns = kWideHalfBytes / static_cast<int>(SizeOf(kType));

 public:
  __device__ __forceinline__ Loader(const ScoreParams& params, const DocumentMaps& maps, Ring<kHalves> ring, int lane)
      : p_(params), maps_(maps), ring_(ring), lane_(lane) {
    // What the multiplying warps begin with.
    row_tile_ = static_cast<int32_t>(blockIdx.x % params.num_row_tiles);
    told_ = 3;
  }

  __device__ __forceinline__ void Run() {
    if (lane_ == 0) PrefetchMap(maps_.rows[3]);
    WorkQueue queue(p_, lane_);
    ForEachChunk<kQuantized>(queue, [this](const Chunk& chunk) { LoadDocuments(chunk); });
    queue.Finish();
    End();
  }

 private:
  __device__ __forceinline__ void LoadDocuments(const Chunk& chunk) {
    if (chunk.row_tile != row_tile_) {
      row_tile_ = chunk.row_tile;
      told_ = 0;
    }
    const int32_t begin = static_cast<int32_t>(chunk.begin);
    const int32_t num_tokens = static_cast<int32_t>(chunk.end - chunk.begin);
    for (int i = 0; i < chunk.count; ++i) {
      LoadDocument(__shfl_sync(0xffffffffu, begin, i), __shfl_sync(0xffffffffu, num_tokens, i),
                   static_cast<uint32_t>(chunk.position + i),
                   kQuantized ? __shfl_sync(0xffffffffu, chunk.scale, i) : 0.0f);
    }
  }

  __device__ __forceinline__ void LoadDocument(int32_t row, int32_t num_tokens, uint32_t position, float scale) {
    uint32_t warpgroups = 3;
    if (p_.documents_in_turn) {
      // To the warpgroup with less to do.
      warpgroups = ahead_ > 0 ? 2 : 1;
      ahead_ += ahead_ > 0 ? -num_tokens : num_tokens;
    }
    const bool new_rows = (told_ & warpgroups) != warpgroups;
    told_ |= warpgroups;
    for (int32_t done = 0; done < num_tokens;) {
      const int32_t left = num_tokens - done;
      // The last two tiles share what is left, so that none is tiny.
      const int32_t half = (left / 2 + kGrain - 1) / kGrain * kGrain;
      const int32_t tokens = left > kWideTokens && left < 2 * kWideTokens ? half : min(left, kWideTokens);
      LoadTile(row + done, tokens,
               {TileWord::Pack<kGrain>(tokens, left == tokens, new_rows && done == 0, warpgroups), position, row_tile_,
                scale});
      done += tokens;
    }
  }

  __device__ __forceinline__ void LoadTile(int32_t row, int32_t tokens, const TileEntry& entry) {
    WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1);
    if (lane_ == 0) {
      const int32_t boxes = (tokens + kBoxRows - 1) / kBoxRows;
      const CUtensorMap& map = maps_.rows[boxes - 1];
      const uint32_t full = ring_.Full(at_.stage), target = ring_.Tile(at_.stage);
      StoreShared(ring_.Entry(at_.entry), entry.word, entry.position, entry.row_tile, __float_as_uint(entry.scale));
      ArriveExpecting(full, boxes * kBoxRows * kHalves * kWideHalfBytes);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        CopyBox(target + half * kWideTokens * kWideHalfBytes, map, half * kHalfColumns, row, full);
      }
    }
    __syncwarp();
    at_.Advance();
  }

  __device__ __forceinline__ void End() {
    WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1);
    if (lane_ != 0) return;
    StoreShared(ring_.Entry(at_.entry), 0, 0, 0, 0);
    Arrive(ring_.Full(at_.stage));
  }

  const ScoreParams& p_;
  const DocumentMaps& maps_;
  const Ring<kHalves> ring_;
  const int lane_;
  RingPlace<Ring<kHalves>::kStages> at_;
  int32_t row_tile_;
  uint32_t told_;      // warpgroups that know of row_tile_
  int64_t ahead_ = 0;  // tokens that warpgroup 0 got more than warpgroup 1
};

}  // namespace maxsim::cuda::sm90
