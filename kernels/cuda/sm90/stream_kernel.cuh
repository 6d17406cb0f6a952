// Fused MaxSim for Hopper where few query rows meet the documents, so that memory sets the pace: one or two blocks of
// 32 rows.
//
// Persistent thread blocks, one a multiprocessor. The last warp copies token tiles of about 8 KB, exactly a document's
// rows and nothing past them, into a ring of shared memory. The other warps take tiles in turn, each a whole tile
// alone: query rows are operands in registers, tokens come from the ring. A tile's maxima meet those of the document's
// other tiles in shared memory; the warp that brings the last of them adds the document's sum.
//
// NOTES:
//  - Tokens past a tile's end are clamped to its last one: a maximum does not mind seeing a token twice. Nothing is
//  masked,
//    and nothing is read that the copy did not bring.
//  - Columns are permuted inside their group of 16, alike in both operands, so that a lane reads 8 bytes at once. The
//    tensor cores' sum of a group does not depend on its order.
//  - Order of additions: that of the portable kernels, bit for bit (kernels/README.md).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm80/ptx/mma.cuh"
#include "kernels/cuda/sm90/ptx/bulk_copy.cuh"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/work_queue.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// What a warp needs to know of a token tile. Lies beside the tile and lives as long.
struct StreamEntry {
  uint32_t num_tokens;  // of the tile; 0 ends the warp's work
  uint32_t num_tiles;   // of the document
  uint32_t position;    // of the document in its list of candidates
  uint32_t place;       // row tile * kStreamSlots + slot of the document's maxima
};
static_assert(sizeof(StreamEntry) == kStreamEntryBytes);

// Addresses in shared memory.
template <int kBlocks>
class StreamRing {
 public:
  static constexpr int kStages = StreamStages(kBlocks);
  static constexpr StreamLayout kLayout = StreamLayoutOf(kBlocks);
  static_assert(kStages % StreamWarps(kBlocks) == 0, "a stage is always the same warp's");
  static_assert(kStages <= kStreamSlots);

  __device__ __forceinline__ explicit StreamRing(uint32_t base) : base_(base) {}
  __device__ __forceinline__ uint32_t Tile(int stage) const { return base_ + stage * kStreamTileBytes; }
  __device__ __forceinline__ uint32_t Entry(int stage) const {
    return base_ + kLayout.entries + stage * kStreamEntryBytes;
  }
  __device__ __forceinline__ uint32_t Full(int stage) const { return base_ + kLayout.full + stage * 8; }
  __device__ __forceinline__ uint32_t Empty(int stage) const { return base_ + kLayout.empty + stage * 8; }
  // Maxima of a document so far, one a row, in the order of AtomicMax below.
  __device__ __forceinline__ uint32_t Maxima(int slot, int block) const {
    return base_ + kLayout.maxima + (slot * kBlocks + block) * kBlockTokens * 4;
  }
  // Tiles of the document that have been added.
  __device__ __forceinline__ uint32_t Count(int slot) const { return base_ + kLayout.counts + slot * 4; }

 private:
  uint32_t base_;
};

template <int kBlocks>
class StreamLoader {
 public:
  __device__ __forceinline__ StreamLoader(const ScoreParams& params, StreamRing<kBlocks> ring, int lane)
      : p_(params), ring_(ring), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    WorkQueue queue(p_, lane_);
    ForEachChunk(queue, [this](const Chunk& chunk) { LoadDocuments(chunk); });
    queue.Finish();
    // Every warp's next tile ends its work.
    for (int i = 0; i < StreamWarps(kBlocks); ++i) {
      WaitBarrier(ring_.Empty(stage_), parity_ ^ 1);
      if (lane_ == 0) {
        StoreShared(ring_.Entry(stage_), 0, 0, 0, 0);
        Arrive(ring_.Full(stage_));
      }
      Advance();
    }
  }

 private:
  __device__ __forceinline__ void LoadDocuments(const Chunk& chunk) {
    for (int i = 0; i < chunk.count; ++i) {
      const int64_t row = __shfl_sync(0xffffffffu, chunk.begin, i);
      const int32_t num_tokens = static_cast<int32_t>(__shfl_sync(0xffffffffu, chunk.end, i) - row);
      const uint32_t num_tiles = (num_tokens + p_.tile_tokens - 1) / p_.tile_tokens;
      const StreamEntry entry{0, num_tiles, static_cast<uint32_t>(chunk.position + i),
                              static_cast<uint32_t>(chunk.row_tile) * kStreamSlots + slot_};
      slot_ = (slot_ + 1) % kStreamSlots;
      for (int32_t done = 0; done < num_tokens; done += p_.tile_tokens) {
        LoadTile(row + done, min(num_tokens - done, p_.tile_tokens), entry);
      }
    }
  }

  __device__ __forceinline__ void LoadTile(int64_t row, uint32_t num_tokens, const StreamEntry& entry) {
    WaitBarrier(ring_.Empty(stage_), parity_ ^ 1);
    if (lane_ == 0) {
      const uint32_t bytes = num_tokens * p_.row_bytes;
      StoreShared(ring_.Entry(stage_), num_tokens, entry.num_tiles, entry.position, entry.place);
      ArriveExpecting(ring_.Full(stage_), bytes);
      CopyBulk(ring_.Tile(stage_), p_.tokens + row * p_.row_bytes, bytes, ring_.Full(stage_));
    }
    __syncwarp();
    Advance();
  }

  __device__ __forceinline__ void Advance() {
    if (++stage_ < StreamRing<kBlocks>::kStages) return;
    stage_ = 0;
    parity_ ^= 1;
  }

  const ScoreParams& p_;
  const StreamRing<kBlocks> ring_;
  const int lane_;
  int stage_ = 0;
  uint32_t parity_ = 0;
  uint32_t slot_ = 0;
};

// kSteps: groups of 16 columns in registers; those past a row's end are zero.
template <ScalarType kType, int kSteps, int kBlocks>
class StreamMultiplier {
  static constexpr int kWarps = StreamWarps(kBlocks);
  static constexpr int kRowTiles16 = 2 * kBlocks;  // mma.sync takes 16 rows
  static constexpr int kStages = StreamRing<kBlocks>::kStages;

 public:
  __device__ __forceinline__ StreamMultiplier(const ScoreParams& params, StreamRing<kBlocks> ring, int warp, int lane)
      : p_(params), ring_(ring), warp_(warp), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    int stage = warp_;
    uint32_t parity = 0;
    while (true) {
      WaitBarrier(ring_.Full(stage), parity);
      StreamEntry entry;
      LoadShared(ring_.Entry(stage), entry.num_tokens, entry.num_tiles, entry.position, entry.place);
      if (entry.num_tokens == 0) return;
      const int32_t row_tile = static_cast<int32_t>(entry.place / kStreamSlots);
      if (row_tile != row_tile_) TakeRows(row_tile);
      float maxima[kBlocks];
      if (p_.row_bytes == kSteps * kStepBytes) {
        MultiplyTile<false>(ring_.Tile(stage), entry.num_tokens, maxima);
      } else {
        MultiplyTile<true>(ring_.Tile(stage), entry.num_tokens, maxima);
      }
      if (entry.num_tiles == 1) {
        Write(entry.position, maxima);
      } else {
        AddToDocument(entry, maxima);
      }
      // Only now, so that no more documents are unfinished than there are stages.
      __syncwarp();
      if (lane_ == 0) Arrive(ring_.Empty(stage));
      stage += kWarps;
      if (stage >= kStages) {
        stage -= kStages;
        parity ^= 1;
      }
    }
  }

 private:
  // Row slot 2 m + h of a lane is row 16 m + 8 h + lane / 4 of the row tile. Of each block a lane ends up with the
  // maximum of one row, OwnRow.
  __device__ __forceinline__ int OwnRow() const { return lane_ % 2 * 16 + lane_ / 2 % 2 * 8 + lane_ / 4; }

  __device__ __forceinline__ void TakeRows(int32_t row_tile) {
    row_tile_ = row_tile;
    const RowTile& tile = p_.row_tiles[row_tile];
    const uint8_t* rows = p_.query_rows + (tile.first_row + lane_ / 4) * p_.row_bytes + lane_ % 4 * 8;
#pragma unroll
    for (int m = 0; m < kRowTiles16; ++m) {
      const bool present = m / 2 < tile.num_blocks;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
          const int byte = k * kStepBytes;
          uint2 columns{0, 0};
          if (present && byte + lane_ % 4 * 8 < p_.row_bytes) {
            columns = *reinterpret_cast<const uint2*>(rows + int64_t{m * 16 + h * 8} * p_.row_bytes + byte);
          }
          a_[m][k][h] = columns.x;
          a_[m][k][2 + h] = columns.y;
        }
      }
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const bool present = b < tile.num_blocks;
      weight_[b] = present ? p_.row_weights[tile.first_row + b * kBlockTokens + OwnRow()] : 0.0f;
      const BlockOutput output = tile.outputs[b];
      out_[b] = !present                  ? nullptr
                : output.to_partials != 0 ? p_.partials + (output.offset - p_.pass_first)
                                          : p_.scores + output.offset;
    }
  }

  // The maximum of each of the lane's own rows over the tile.
  template <bool kShortRows>
  __device__ __forceinline__ void MultiplyTile(uint32_t tile, int num_tokens, float (&maxima)[kBlocks]) {
    float running[kRowTiles16][2];
#pragma unroll
    for (int m = 0; m < kRowTiles16; ++m) running[m][0] = running[m][1] = __int_as_float(0xff800000);  // -infinity
    const int group = lane_ / 4, quarter = lane_ % 4 * 8, last = num_tokens - 1;
#pragma unroll 1
    for (int first = group; first - group < num_tokens; first += 16) {
      const uint32_t token0 = tile + min(first, last) * p_.row_bytes + quarter;
      const uint32_t token1 = tile + min(first + 8, last) * p_.row_bytes + quarter;
      float sums[kRowTiles16][2][4];
#pragma unroll
      for (int m = 0; m < kRowTiles16; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][0][i] = sums[m][1][i] = 0.0f;
      }
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        uint2 b0{0, 0}, b1{0, 0};
        if (!kShortRows || k * kStepBytes + quarter < p_.row_bytes) {
          b0 = LoadShared64(token0 + k * kStepBytes);
          b1 = LoadShared64(token1 + k * kStepBytes);
        }
#pragma unroll
        for (int m = 0; m < kRowTiles16; ++m) {
          sm80::MultiplyAdd<kType>(sums[m][0], a_[m][k], b0.x, b0.y);
          sm80::MultiplyAdd<kType>(sums[m][1], a_[m][k], b1.x, b1.y);
        }
      }
#pragma unroll
      for (int m = 0; m < kRowTiles16; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float pair0 = fmaxf(sums[m][0][2 * h], sums[m][0][2 * h + 1]);
          const float pair1 = fmaxf(sums[m][1][2 * h], sums[m][1][2 * h + 1]);
          running[m][h] = fmaxf(running[m][h], fmaxf(pair0, pair1));
        }
      }
    }
    // The four lanes of a row join: each keeps one of its four rows and takes the others' maxima of it.
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const bool upper = lane_ % 2 != 0, second = lane_ / 2 % 2 != 0;
      float keep[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float give = upper ? running[2 * b][h] : running[2 * b + 1][h];
        keep[h] = fmaxf(upper ? running[2 * b + 1][h] : running[2 * b][h], __shfl_xor_sync(0xffffffffu, give, 1));
      }
      const float give = second ? keep[0] : keep[1];
      maxima[b] = fmaxf(second ? keep[1] : keep[0], __shfl_xor_sync(0xffffffffu, give, 2));
    }
  }

  // Floats as integers of the same order.
  static __device__ __forceinline__ int32_t Ordered(float value) {
    const int32_t bits = __float_as_int(value);
    return bits ^ (bits >> 31 & 0x7fffffff);
  }
  static __device__ __forceinline__ float FromOrdered(int32_t bits) {
    return __int_as_float(bits ^ (bits >> 31 & 0x7fffffff));
  }

  // Joins a tile's maxima to its document's. The warp that brings the last tile writes the sums and clears the slot.
  __device__ __forceinline__ void AddToDocument(const StreamEntry& entry, float (&maxima)[kBlocks]) {
    const int slot = static_cast<int>(entry.place % kStreamSlots);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) MaxShared(ring_.Maxima(slot, b) + lane_ * 4, Ordered(maxima[b]));
    __syncwarp();
    uint32_t before = 0;
    if (lane_ == 0) before = AddSharedAcquireRelease(ring_.Count(slot), 1);
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before + 1 != entry.num_tiles) return;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      maxima[b] = FromOrdered(static_cast<int32_t>(LoadShared(ring_.Maxima(slot, b) + lane_ * 4)));
      StoreShared(ring_.Maxima(slot, b) + lane_ * 4, kNoMaximum);
    }
    if (lane_ == 0) StoreShared(ring_.Count(slot), 0u);
    Write(entry.position, maxima);
  }

  // Adds the 32 weighted maxima of each block: the butterfly of the contract, over rows 16, 8, 4, 2, 1 apart. OwnRow
  // says which lanes those are.
  __device__ __forceinline__ void Write(uint32_t position, const float (&maxima)[kBlocks]) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      float sum = __fmul_rn(weight_[b], maxima[b]);
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 16));
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 8));
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 4));
      // -0 becomes +0, so that the sort order is total.
      if (lane_ == 0 && out_[b] != nullptr) out_[b][position] = __fadd_rn(sum, 0.0f);
    }
  }

  const ScoreParams& p_;
  const StreamRing<kBlocks> ring_;
  const int warp_;
  const int lane_;
  int32_t row_tile_ = -1;
  uint32_t a_[kRowTiles16][kSteps][4];
  float weight_[kBlocks];  // of OwnRow
  float* out_[kBlocks];    // [position]; null for a block that the row tile does not have

 public:
  static constexpr uint32_t kNoMaximum = 0x807fffff;  // Ordered(-infinity)
};

template <ScalarType kType, int kSteps, int kBlocks>
__global__ void __launch_bounds__(StreamThreads(kBlocks), 1) StreamKernel(const __grid_constant__ ScoreParams params) {
  extern __shared__ __align__(128) uint8_t raw[];
  using Multiplier = StreamMultiplier<kType, kSteps, kBlocks>;
  const StreamRing<kBlocks> ring(static_cast<uint32_t>(__cvta_generic_to_shared(raw)));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x < StreamRing<kBlocks>::kStages) {
    InitBarrier(ring.Full(threadIdx.x), 1);
    InitBarrier(ring.Empty(threadIdx.x), 1);
    FenceBarrierInit();
  }
  for (int i = threadIdx.x; i < kStreamSlots * kBlocks * kBlockTokens; i += blockDim.x) {
    StoreShared(ring.Maxima(0, 0) + i * 4, Multiplier::kNoMaximum);
  }
  if (threadIdx.x < kStreamSlots) StoreShared(ring.Count(threadIdx.x), 0u);
  __syncthreads();
  if (warp == StreamWarps(kBlocks)) {
    StreamLoader<kBlocks>(params, ring, lane).Run();
  } else {
    Multiplier(params, ring, warp, lane).Run();
  }
}

}  // namespace maxsim::cuda::sm90
