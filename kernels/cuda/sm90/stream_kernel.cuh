// Fused MaxSim for Hopper where a single block of 32 query rows meets the documents, so that memory sets the pace.
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
#include "kernels/cuda/sm90/ptx/dependent_launch.cuh"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/work_queue.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// What a warp needs to know of a token tile. Lies beside the tile and lives as long.
struct StreamEntry {
  uint32_t counts;    // tokens of the tile, and tiles of the document; 0 ends the warp's work
  uint32_t position;  // of the document in its list of candidates
  uint32_t place;     // row tile * kStreamSlots + slot of the document's maxima
  float scale;        // of a quantised document

  // A tile has at most kStreamTileBytes / 16 tokens, and a document 65,536 / 32 tiles.
  static __device__ __forceinline__ uint32_t Counts(int32_t num_tokens, int32_t num_tiles) {
    return static_cast<uint32_t>(num_tokens) | static_cast<uint32_t>(num_tiles) << 16;
  }
  __device__ __forceinline__ int num_tokens() const { return static_cast<int>(counts & 0xffff); }
  __device__ __forceinline__ uint32_t num_tiles() const { return counts >> 16; }
};
static_assert(sizeof(StreamEntry) == kStreamEntryBytes);

// Addresses in shared memory.
class StreamRing {
 public:
  static constexpr StreamLayout kLayout = StreamLayoutOf();
  static_assert(kStreamStages % kStreamWarps == 0, "a stage is always the same warp's");
  static_assert(kStreamStages <= kStreamSlots);

  __device__ __forceinline__ explicit StreamRing(uint32_t base) : base_(base) {}
  __device__ __forceinline__ uint32_t Tile(int stage) const { return base_ + stage * kStreamTileBytes; }
  __device__ __forceinline__ uint32_t Entry(int stage) const {
    return base_ + kLayout.entries + stage * kStreamEntryBytes;
  }
  __device__ __forceinline__ uint32_t Full(int stage) const { return base_ + kLayout.full + stage * 8; }
  __device__ __forceinline__ uint32_t Empty(int stage) const { return base_ + kLayout.empty + stage * 8; }
  // Maxima of a document so far, one a row, as Ordered below makes them.
  __device__ __forceinline__ uint32_t Maxima(int slot) const {
    return base_ + kLayout.maxima + slot * kBlockTokens * 4;
  }
  // Tiles of the document that have been added.
  __device__ __forceinline__ uint32_t Count(int slot) const { return base_ + kLayout.counts + slot * 4; }

 private:
  uint32_t base_;
};

// kScales: the documents have scales.
template <bool kScales>
class StreamLoader {
 public:
  __device__ __forceinline__ StreamLoader(const ScoreParams& params, StreamRing ring, int lane)
      : p_(params), ring_(ring), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    WorkQueue queue(p_, lane_);
    ForEachChunk<kScales>(queue, [this](const Chunk& chunk) { LoadDocuments(chunk); });
    queue.Finish();
    // Every warp's next tile ends its work. One lane sees to all: there is no hurry any more.
    for (int i = 0; i < kStreamWarps; ++i) {
      WaitForStage(0);
      if (lane_ == 0) {
        StoreShared(ring_.Entry(stage_), 0, 0, 0, 0);
        Arrive(ring_.Full(stage_));
      }
      __syncwarp();
      Advance(1);
    }
  }

 private:
  // Tiles that are begun together, one a lane. No more, as all their stages must be free.
  static constexpr int kBatch = 10;

  // One lane working alone could not keep up with the memory. So the chunk's tiles are numbered through, and each lane
  // sees to another one.
  __device__ __forceinline__ void LoadDocuments(const Chunk& chunk) {
    const int32_t num_tokens = lane_ < chunk.count ? static_cast<int32_t>(chunk.end - chunk.begin) : 0;
    const int32_t num_tiles = (num_tokens + p_.tile_tokens - 1) / p_.tile_tokens;
    int32_t end = num_tiles;  // first number of the next document's tiles
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t below = __shfl_up_sync(0xffffffffu, end, distance);
      if (lane_ >= distance) end += below;
    }
    const int32_t total = __shfl_sync(0xffffffffu, end, 31);
    for (int32_t first = 0; first < total; first += kBatch) {
      const int32_t number = first + lane_;
      int document = 0;  // of tile `number`: as many as end at it or before
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const uint32_t over = __ballot_sync(0xffffffffu, end <= first + i);
        if (lane_ == i) document = __popc(over);
      }
      const int count = min(kBatch, total - first);
      for (int i = 0; i < count; ++i) WaitForStage(i);
      const int64_t row = __shfl_sync(0xffffffffu, chunk.begin, document);
      const int32_t tokens = __shfl_sync(0xffffffffu, num_tokens, document);
      const int32_t tiles = __shfl_sync(0xffffffffu, num_tiles, document);
      const int32_t done = (number - __shfl_sync(0xffffffffu, end, document) + tiles) * p_.tile_tokens;
      const float scale = kScales ? __shfl_sync(0xffffffffu, chunk.scale, document) : 0.0f;
      if (lane_ < kBatch && number < total) {
        LoadTile(row + done,
                 {StreamEntry::Counts(min(tokens - done, p_.tile_tokens), tiles),
                  static_cast<uint32_t>(chunk.position + document),
                  static_cast<uint32_t>(chunk.row_tile) * kStreamSlots + (slot_ + document) % kStreamSlots, scale});
      }
      __syncwarp();
      Advance(count);
    }
    slot_ = (slot_ + chunk.count) % kStreamSlots;
  }

  // The stage `ahead` of the next one.
  __device__ __forceinline__ int Stage(int ahead) const {
    return stage_ + ahead - (stage_ + ahead >= kStreamStages ? kStreamStages : 0);
  }

  // Waits until it is free. (All lanes wait for all stages of a batch: it costs little, and every lane may then fill
  // any.)
  __device__ __forceinline__ void WaitForStage(int ahead) const {
    const uint32_t parity = stage_ + ahead >= kStreamStages ? parity_ ^ 1 : parity_;
    WaitBarrier(ring_.Empty(Stage(ahead)), parity ^ 1);
  }

  // Fills the lane's stage: the lane-th from the next one on.
  __device__ __forceinline__ void LoadTile(int64_t row, const StreamEntry& entry) {
    const int stage = Stage(lane_);
    const uint32_t bytes = entry.num_tokens() * p_.row_bytes;
    StoreShared(ring_.Entry(stage), entry.counts, entry.position, entry.place, __float_as_uint(entry.scale));
    ArriveExpecting(ring_.Full(stage), bytes);
    CopyBulk(ring_.Tile(stage), p_.tokens + row * p_.row_bytes, bytes, ring_.Full(stage));
  }

  __device__ __forceinline__ void Advance(int tiles) {
    stage_ += tiles;
    if (stage_ < kStreamStages) return;
    stage_ -= kStreamStages;
    parity_ ^= 1;
  }

  const ScoreParams& p_;
  const StreamRing ring_;
  const int lane_;
  int stage_ = 0;
  uint32_t parity_ = 0;
  uint32_t slot_ = 0;  // of the next document
};

// kSteps: steps of 32 bytes in registers; those past a row's end are zero.
template <ScalarType kType, int kSteps>
class StreamMultiplier {
  static constexpr int kHalves = kBlockTokens / 16;  // of the block: mma.sync takes 16 rows
  static constexpr int kRotated = 4;                 // steps that are loaded together
  static constexpr bool kQuantized = kType == ScalarType::kI8;
  using Value = Sum<kType>;

 public:
  __device__ __forceinline__ StreamMultiplier(const ScoreParams& params, StreamRing ring, int warp, int lane)
      : p_(params), ring_(ring), warp_(warp), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    if constexpr (kQuantized) WaitForKernelBefore();                // which writes the query rows
    TakeRows(static_cast<int32_t>(blockIdx.x % p_.num_row_tiles));  // where the block's work begins
    int stage = warp_;
    uint32_t parity = 0;
    while (true) {
      WaitBarrier(ring_.Full(stage), parity);
      StreamEntry entry;
      uint32_t scale = 0;
      LoadShared(ring_.Entry(stage), entry.counts, entry.position, entry.place, scale);
      entry.scale = __uint_as_float(scale);
      if (entry.counts == 0) return;
      const int32_t row_tile = static_cast<int32_t>(entry.place / kStreamSlots);
      if (row_tile != row_tile_) TakeRows(row_tile);
      const Value maximum = p_.row_bytes == kSteps * kStepBytes
                                ? MultiplyTile<false>(ring_.Tile(stage), entry.num_tokens())
                                : MultiplyTile<true>(ring_.Tile(stage), entry.num_tokens());
      if (entry.num_tiles() == 1) {
        Write(entry, maximum);
      } else {
        AddToDocument(entry, maximum);
      }
      // Only now, so that no more documents are unfinished than there are stages. Every lane for itself, as every lane
      // has read the stage.
      Arrive(ring_.Empty(stage));
      stage += kStreamWarps;
      if (stage >= kStreamStages) {
        stage -= kStreamStages;
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
    for (int m = 0; m < kHalves; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
          const int byte = k * kStepBytes;
          uint2 columns{0, 0};
          if (byte + lane_ % 4 * 8 < p_.row_bytes) {
            columns = *reinterpret_cast<const uint2*>(rows + int64_t{m * 16 + h * 8} * p_.row_bytes + byte);
          }
          a_[m][k][h] = columns.x;
          a_[m][k][2 + h] = columns.y;
        }
      }
    }
    weight_ = p_.row_weights[tile.first_row + OwnRow()];
    const BlockOutput output = tile.outputs[0];
    sums_out_ = output.to_partials != 0 ? p_.partials + (output.offset - p_.pass_first) : p_.scores + output.offset;
  }

  // Loads the lane's 8 bytes of four steps. Rows of 256 bytes begin in the same bank, and each phase of the load reads
  // four rows: each row begins with another step, so that they meet in different banks, and the steps are put in order
  // afterwards, by one place where the row is odd and by two where its second bit is set.
  __device__ __forceinline__ void LoadRotated(uint32_t address, uint2 (&steps)[kRotated]) const {
    const int row = lane_ / 4;
    uint2 loaded[kRotated], turned[kRotated];
#pragma unroll
    for (int j = 0; j < kRotated; ++j) loaded[j] = LoadShared64(address + (j + row) % kRotated * kStepBytes);
#pragma unroll
    for (int j = 0; j < kRotated; ++j) turned[j] = row & 1 ? loaded[(j + 3) % 4] : loaded[j];
#pragma unroll
    for (int j = 0; j < kRotated; ++j) steps[j] = row & 2 ? turned[(j + 2) % 4] : turned[j];
  }

  // The maximum of the lane's own row over the tile.
  template <bool kShortRows>
  __device__ __forceinline__ Value MultiplyTile(uint32_t tile, int num_tokens) const {
    Value running[kHalves][2];
#pragma unroll
    for (int m = 0; m < kHalves; ++m) running[m][0] = running[m][1] = LowestSum<Value>();
    const int group = lane_ / 4, quarter = lane_ % 4 * 8, last = num_tokens - 1;
#pragma unroll 1
    for (int first = group; first - group < num_tokens; first += 16) {
      const uint32_t token0 = tile + min(first, last) * p_.row_bytes + quarter;
      const uint32_t token1 = tile + min(first + 8, last) * p_.row_bytes + quarter;
      Value sums[kHalves][2][4];
#pragma unroll
      for (int m = 0; m < kHalves; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][0][i] = sums[m][1][i] = 0;
      }
#pragma unroll
      for (int k0 = 0; k0 < kSteps; k0 += kRotated) {
        constexpr int kLoads = kRotated;
        uint2 b0[kLoads], b1[kLoads];
        if (kShortRows || k0 + kRotated > kSteps) {
#pragma unroll
          for (int j = 0; j < kLoads; ++j) {
            b0[j] = b1[j] = uint2{0, 0};
            if (k0 + j >= kSteps || (kShortRows && (k0 + j) * kStepBytes + quarter >= p_.row_bytes)) continue;
            b0[j] = LoadShared64(token0 + (k0 + j) * kStepBytes);
            b1[j] = LoadShared64(token1 + (k0 + j) * kStepBytes);
          }
        } else {
          LoadRotated(token0 + k0 * kStepBytes, b0);
          LoadRotated(token1 + k0 * kStepBytes, b1);
        }
#pragma unroll
        for (int j = 0; j < kLoads; ++j) {
          if (k0 + j >= kSteps) continue;
#pragma unroll
          for (int m = 0; m < kHalves; ++m) {
            sm80::MultiplyAdd<kType>(sums[m][0], a_[m][k0 + j], b0[j].x, b0[j].y);
            sm80::MultiplyAdd<kType>(sums[m][1], a_[m][k0 + j], b1[j].x, b1[j].y);
          }
        }
      }
#pragma unroll
      for (int m = 0; m < kHalves; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const Value pair0 = Larger(sums[m][0][2 * h], sums[m][0][2 * h + 1]);
          const Value pair1 = Larger(sums[m][1][2 * h], sums[m][1][2 * h + 1]);
          running[m][h] = Larger(running[m][h], Larger(pair0, pair1));
        }
      }
    }
    // The four lanes of a row join: each keeps one of its four rows and takes the others' maxima of it.
    const bool upper = lane_ % 2 != 0, second = lane_ / 2 % 2 != 0;
    Value keep[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Value give = upper ? running[0][h] : running[1][h];
      keep[h] = Larger(upper ? running[1][h] : running[0][h], __shfl_xor_sync(0xffffffffu, give, 1));
    }
    const Value give = second ? keep[0] : keep[1];
    return Larger(second ? keep[1] : keep[0], __shfl_xor_sync(0xffffffffu, give, 2));
  }

  // Joins a tile's maxima to its document's. The warp that brings the last tile writes the sums and clears the slot.
  __device__ __forceinline__ void AddToDocument(const StreamEntry& entry, Value maximum) {
    const int slot = static_cast<int>(entry.place % kStreamSlots);
    MaxShared(ring_.Maxima(slot) + lane_ * 4, Ordered(maximum));
    __syncwarp();
    uint32_t before = 0;
    if (lane_ == 0) before = AddSharedAcquireRelease(ring_.Count(slot), 1);
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before + 1 != entry.num_tiles()) return;
    __syncwarp();  // what lane 0 has acquired, all have
    maximum = FromOrdered<Value>(static_cast<int32_t>(LoadShared(ring_.Maxima(slot) + lane_ * 4)));
    StoreShared(ring_.Maxima(slot) + lane_ * 4, kNoMaximum);
    if (lane_ == 0) StoreShared(ring_.Count(slot), 0u);
    Write(entry, maximum);
  }

  // Adds the 32 weighted maxima: the butterfly of the contract, over rows 16, 8, 4, 2, 1 apart. OwnRow says which lanes
  // those are.
  __device__ __forceinline__ void Write(const StreamEntry& entry, Value maximum) const {
    float sum = __fmul_rn(weight_, ValueOf(maximum));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 16));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 8));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 4));
    if (kQuantized) sum = __fmul_rn(sum, entry.scale);
    // -0 becomes +0, so that the sort order is total.
    if (lane_ == 0) sums_out_[entry.position] = __fadd_rn(sum, 0.0f);
  }

  const ScoreParams& p_;
  const StreamRing ring_;
  const int warp_;
  const int lane_;
  int32_t row_tile_ = -1;
  uint32_t a_[kHalves][kSteps][4];
  float weight_ = 0;           // of OwnRow
  float* sums_out_ = nullptr;  // [position]

 public:
  static constexpr uint32_t kNoMaximum = kLowestOrdered<Value>;
};

template <ScalarType kType, int kSteps>
__global__ void __launch_bounds__(kStreamThreads, 1) StreamKernel(const __grid_constant__ ScoreParams params) {
  extern __shared__ __align__(128) uint8_t raw[];
  using Multiplier = StreamMultiplier<kType, kSteps>;
  const StreamRing ring(static_cast<uint32_t>(__cvta_generic_to_shared(raw)));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < kStreamWarps && lane == 0) {
    for (int stage = warp; stage < kStreamStages; stage += kStreamWarps) {
      InitBarrier(ring.Full(stage), 1);
      InitBarrier(ring.Empty(stage), 32);
    }
    FenceBarrierInit();
  }
  for (int i = threadIdx.x; i < kStreamSlots * kBlockTokens; i += blockDim.x) {
    StoreShared(ring.Maxima(0) + i * 4, Multiplier::kNoMaximum);
  }
  if (threadIdx.x < kStreamSlots) StoreShared(ring.Count(threadIdx.x), 0u);
  __syncthreads();
  if (warp == kStreamWarps) {
    StreamLoader<kType == ScalarType::kI8>(params, ring, lane).Run();
  } else {
    Multiplier(params, ring, warp, lane).Run();
  }
}

}  // namespace maxsim::cuda::sm90
