// The scan of many queries together over codes without factors whose rows have up to 128 coordinates, for Hopper
// (sm_90a).
//
// All queries of a pass lie in shared memory, as blocks of 64 rows. A block consists of four row tiles, one for each
// warp of a warpgroup. Each warpgroup takes chunks of candidates for itself, and cuts their octets of tokens into tiles
// of 16 octets. It expands a tile to bytes in shared memory, once, and multiplies the tile with each block of rows. An
// octet has tokens of one document only. After the document's end it repeats the document's last token, which changes
// no maximum.
//
// A product is 64 query tokens x 128 document tokens. Each quad of lanes has the products of two query tokens. While
// the warpgroup multiplies other blocks, the maxima so far are in shared memory. At a document's end each warp adds up
// the terms of its row tile. When the tile has been multiplied with all blocks, the warpgroup adds up the row tiles of
// each query.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "kernels/cuda/codes/common/final_score.cuh"
#include "kernels/cuda/codes/common/quad_maximum.cuh"
#include "kernels/cuda/codes/hopper/many_shape.h"
#include "kernels/cuda/codes/hopper/octet_chunk.cuh"
#include "kernels/cuda/codes/hopper/products.cuh"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/named_barrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_common/ptx/wgmma.cuh"

namespace maxsim::cuda::sm90 {

// Returns the place of row `row` + 8 * `half` of a row tile in ManyShared::Rows. Lanes that read together read
// neighbouring places.
__device__ __forceinline__ int RowSlot(int tile, int row, int half) { return tile * kScanTileRows + row * 2 + half; }

// One warpgroup's work.
template <int kPlanes, int kWords>
class ManyScan {
 public:
  __device__ __forceinline__ ManyScan(const ScanParams& params, const ManyPass& pass, const ManyShared& shared)
      : params_(params),
        pass_(pass),
        shared_(shared),
        thread_(static_cast<int>(threadIdx.x) % kGroupThreads),
        lane_(static_cast<int>(threadIdx.x) % 32),
        // One lane provides the warp's number, so that the compiler knows that it is the same for the whole warp.
        warp_(__shfl_sync(kAllLanes, thread_ / 32, 0)),
        group_(__shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0)) {
    // Keeps the value in a register: otherwise the compiler would compute it for every block.
    tokens_ = shared_.Tokens(group_);
    asm volatile("" : "+r"(tokens_));
  }

  __device__ __forceinline__ void Run(int chunk_candidates) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kManyGroups * chunk_candidates;
    for (int64_t first = (static_cast<int64_t>(blockIdx.x) * kManyGroups + group_) * chunk_candidates;
         first < params_.num_candidates; first += stride) {
      const OctetChunk chunk(params_, pass_.first_query, pass_.num_queries, first, chunk_candidates, lane_);
      if (chunk.IsLeftOut()) {
        for (int query = warp_; query < pass_.num_queries; query += kGroupWarps) {
          params_.scores[params_.queries[pass_.first_query + query].scores_offset + first + lane_] = kLeftOut;
        }
      }
      RowWords<kPlanes, kWords> words = {};
      Load(chunk, 0, words);
      for (int octet = 0; octet < chunk.num_octets(); octet += kTileOctets) {
        Expand(words);
        FenceForAsync();
        NamedBarrierSync();
        Load(chunk, octet + kTileOctets, words);
        const uint32_t ends = chunk.EndsIn(octet, kTileOctets);
        if (warp_ == 0) chunk.NameEnded(octet, kTileOctets, ends, shared_.Ended(group_));
        MultiplyTile(octet == 0, ends);
        NamedBarrierSync();
        if (ends != 0) Finish(first, octet / kTileOctets, __popc(ends));
      }
    }
  }

 private:
  __device__ __forceinline__ void NamedBarrierSync() const { WaitAtNamed<kGroupThreads>(1 + group_); }

  // Loads the words of the thread's token of the tile that begins at `octet`, if the chunk has this token.
  __device__ __forceinline__ void Load(const OctetChunk& chunk, int octet, RowWords<kPlanes, kWords>& words) const {
    const int64_t token = chunk.TokenOf(octet + warp_ * 4, lane_);
    if (token >= 0) words.Load(params_.codes, token);
  }

  __device__ __forceinline__ void Expand(const RowWords<kPlanes, kWords>& words) const {
#pragma unroll
    for (int step = 0; step < kWords; ++step) {
      StepBytes bytes[4];
#pragma unroll
      for (int part = 0; part < 4; ++part) bytes[part] = words.Step(step, part);
      StoreShared(tokens_ + OperandOffset(thread_, step, 0, 0), bytes[0].low, bytes[1].low, bytes[2].low, bytes[3].low);
      StoreShared(tokens_ + OperandOffset(thread_, step, 1, 0), bytes[0].high, bytes[1].high, bytes[2].high,
                  bytes[3].high);
    }
  }

  // Multiplies the tile with all blocks. `ends` has a bit for each octet that is a document's last. `fresh` says that
  // the tile's first document begins in this tile, and not in an earlier one.
  __device__ __forceinline__ void MultiplyTile(bool fresh, uint32_t ends) const {
    const uint64_t tokens = DescribeOperand(tokens_);
    uint64_t query = DescribeOperand(shared_.Query());
    uint32_t carried = shared_.Carried(group_) + thread_ * 8;
    uint32_t row = shared_.Rows() + RowSlot(warp_, lane_ / 4, lane_ & 1) * 16;
    uint32_t slot = shared_.TileSums(group_) + warp_ * (kTileOctets * 8);
#pragma unroll 1
    for (int blocks = pass_.num_blocks(); blocks > 0; --blocks) {
      uint2 largest{kLowest, kLowest};
      if (!fresh) largest = LoadShared64(carried);
      RowTerms terms;
      LoadShared(row, terms.offset, terms.multiplier, terms.only_positive, terms.unused);
      int32_t sums[64];
      FenceOperands();
      MultiplyQuery<kPlanes == 1, true>(sums, query, tokens);
#pragma unroll
      for (int k = 1; k < kWords; ++k) MultiplyQuery<kPlanes == 1, false>(sums, query + 2 * k, tokens + 2 * k);
      CommitGroup();
      WaitGroups<0>();
      Pin<128>(sums);
      TakeMaxima(sums, ends, terms, slot, largest);
      StoreShared64(carried, largest.x, largest.y);
      query += kBlockBytes / 16;
      carried += kGroupThreads * 8;
      row += kGroupWarps * kScanTileRows * 16;
      slot += kGroupWarps * kTileOctets * 8;
    }
  }

  // The numbers of a query row that its lanes need at the end of a document. CopyQueries writes them.
  struct RowTerms {
    uint32_t offset;
    uint32_t multiplier;
    uint32_t only_positive;
    uint32_t unused;
  };

  // Updates the maxima with a tile's products, and adds up the terms of documents that end in the tile. Lane 4 g + c
  // has the products of rows g and g + 8 with tokens 2 c and 2 c + 1 of octet i: those of row g in sums[4 i] and sums[4
  // i + 1], and those of row g + 8 in sums[4 i + 2] and sums[4 i + 3].
  __device__ __forceinline__ void TakeMaxima(const int32_t (&sums)[64], uint32_t ends, const RowTerms& terms,
                                             uint32_t slot, uint2& largest) const {
    int32_t upper = static_cast<int32_t>(largest.x), lower = static_cast<int32_t>(largest.y);
    const int32_t counted = (lane_ & 2) == 0 ? static_cast<int32_t>(terms.multiplier) : 0;  // two lanes have each row
#pragma unroll
    for (int first = 0; first < kTileOctets; first += kCheckedOctets) {
      if ((ends >> first & ((1u << kCheckedOctets) - 1)) == 0) {
        upper = LargestOfFour(upper, sums, 4 * first);
        lower = LargestOfFour(lower, sums, 4 * first + 2);
        continue;
      }
#pragma unroll
      for (int octet = first; octet < first + kCheckedOctets; ++octet) {
        const int i = 4 * octet;
        upper = max(max(upper, sums[i]), sums[i + 1]);
        lower = max(max(lower, sums[i + 2]), sums[i + 3]);
        if ((ends >> octet & 1) != 0) {
          SumTerms(kProductScale<kPlanes> * PairMaximum(upper, lower, lane_) + static_cast<int32_t>(terms.offset),
                   counted, terms.only_positive, slot);
          slot += 8;
          upper = lower = INT_MIN;
        }
      }
    }
    largest = {static_cast<uint32_t>(upper), static_cast<uint32_t>(lower)};
  }

  // Returns the largest of `so_far` and a row's products in four octets, in an order with few dependent steps.
  static __device__ __forceinline__ int32_t LargestOfFour(int32_t so_far, const int32_t (&sums)[64], int i) {
    const int32_t first = max(max(sums[i], sums[i + 1]), sums[i + 4]);
    const int32_t second = max(max(sums[i + 5], sums[i + 8]), sums[i + 9]);
    return max(max(first, second), max(max(so_far, sums[i + 12]), sums[i + 13]));
  }

  // Adds up the terms of the warp's rows, in two parts: the low bits of the products and the other bits. Products are
  // below 2^23 and multipliers have 16 bits, so each part fits 32 bits.
  __device__ __forceinline__ void SumTerms(int32_t product, int32_t multiplier, uint32_t only_positive,
                                           uint32_t slot) const {
    if (((static_cast<uint32_t>(product) ^ static_cast<uint32_t>(multiplier)) & only_positive) != 0) product = 0;
    const int32_t low = __reduce_add_sync(kAllLanes, (product & ((1 << kLowBits) - 1)) * multiplier);
    const int32_t high = __reduce_add_sync(kAllLanes, (product >> kLowBits) * multiplier);
    if (lane_ == 0) StoreShared64(slot, static_cast<uint32_t>(low), static_cast<uint32_t>(high));
  }

  // Writes the scores of the documents that have ended. A warp handles one document at a time, and each lane handles a
  // query.
  __device__ __forceinline__ void Finish(int64_t first, int tile, int num_ended) const {
    for (int document = (warp_ + tile) % kGroupWarps; document < num_ended; document += kGroupWarps) {
      uint32_t place, ordinal, scale, unused;
      LoadShared(shared_.Ended(group_) + document * 16, place, ordinal, scale, unused);
      for (int query = lane_; query < pass_.num_queries; query += 32) {
        const auto& of_query = static_cast<const ScanQueryParams*>(__cvta_shared_to_generic(shared_.Queries()))[query];
        const uint2 tiles = LoadShared64(shared_.QueryTiles() + query * 8);
        int64_t sum = 0;
        for (uint32_t i = tiles.x; i < tiles.y; ++i) {
          const uint2 parts = LoadShared64(shared_.TileSums(group_) + (i * kTileOctets + document) * 8);
          sum += static_cast<int32_t>(parts.x) + static_cast<int64_t>(static_cast<int32_t>(parts.y)) * (1 << kLowBits);
        }
        params_.scores[of_query.scores_offset + first + place] =
            MayBeSelected(of_query.mask, ordinal)
                ? FinalScore(of_query, params_.codes, sum, ordinal, __uint_as_float(scale))
                : kLeftOut;
      }
    }
  }

  static constexpr uint32_t kLowest = 0x80000000u;  // INT_MIN
  static constexpr int kCheckedOctets = 4;          // octets that are checked for ends together
  static constexpr int kLowBits = 11;               // low bits of a product, which are summed separately

  const ScanParams& params_;
  const ManyPass& pass_;
  const ManyShared& shared_;
  const int thread_;  // of the warpgroup
  const int lane_;
  const int warp_;  // of the warpgroup
  const int group_;
  uint32_t tokens_;
};

// Copies the pass's queries to shared memory.
template <int kWords>
__device__ __forceinline__ void CopyQueries(const ScanParams& params, const ManyPass& pass, const ManyShared& shared) {
  const int num_tiles = pass.num_blocks() * kGroupWarps;
  for (int i = static_cast<int>(threadIdx.x); i < num_tiles * kWords * 32; i += kManyThreads) {
    const int tile = i / (kWords * 32), step = i / 32 % kWords, lane = i % 32, row = tile * kScanTileRows + lane / 4;
    uint4 fragment{};
    if (tile < pass.num_tiles) fragment = params.fragments[pass.first_tile * kWords * 32 + i];
    StoreShared(shared.Query() + OperandOffset(row, step, 0, lane % 4), fragment.x);
    StoreShared(shared.Query() + OperandOffset(row + 8, step, 0, lane % 4), fragment.y);
    StoreShared(shared.Query() + OperandOffset(row, step, 1, lane % 4), fragment.z);
    StoreShared(shared.Query() + OperandOffset(row + 8, step, 1, lane % 4), fragment.w);
  }
  const auto query_of = [&](int tile) { return params.tile_queries[pass.first_tile + tile]; };
  for (int i = static_cast<int>(threadIdx.x); i < num_tiles * kScanTileRows; i += kManyThreads) {
    ScanRow row{};
    bool only_positive = false;
    if (i < pass.num_tiles * kScanTileRows) {
      row = params.rows[pass.first_tile * kScanTileRows + i];
      only_positive = params.queries[query_of(i / kScanTileRows)].by_upper_bound != 0;
    }
    StoreShared(shared.Rows() + RowSlot(i / kScanTileRows, i % 8, i % kScanTileRows / 8) * 16,
                static_cast<uint32_t>(row.offset), static_cast<uint32_t>(row.multiplier),
                only_positive ? 0x80000000u : 0u, 0u);
  }
  for (int i = static_cast<int>(threadIdx.x); i < pass.num_queries; i += kManyThreads) {
    static_cast<ScanQueryParams*>(__cvta_shared_to_generic(shared.Queries()))[i] = params.queries[pass.first_query + i];
  }
  for (int tile = static_cast<int>(threadIdx.x); tile < pass.num_tiles; tile += kManyThreads) {
    const int32_t query = query_of(tile);
    // A query's tiles follow one another.
    const uint32_t of_query = shared.QueryTiles() + (query - pass.first_query) * 8;
    if (tile == 0 || query_of(tile - 1) != query) StoreShared(of_query, static_cast<uint32_t>(tile));
    if (tile + 1 == pass.num_tiles || query_of(tile + 1) != query) {
      StoreShared(of_query + 4, static_cast<uint32_t>(tile + 1));
    }
  }
}

template <int kPlanes, int kWords>
__global__ void __launch_bounds__(kManyThreads, 1)
    ScanManyKernel(const __grid_constant__ ScanParams params, const __grid_constant__ ManyPass pass,
                   int chunk_candidates) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const ManyShared shared(static_cast<uint32_t>(__cvta_generic_to_shared(raw)), pass.num_blocks());
  CopyQueries<kWords>(params, pass, shared);
  FenceForAsync();
  __syncthreads();
  ManyScan<kPlanes, kWords>(params, pass, shared).Run(chunk_candidates);
}

}  // namespace maxsim::cuda::sm90
