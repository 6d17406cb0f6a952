// Fused MaxSim for sm_80 and later. Computes the scores of documents against a tile of query rows, or the document
// tokens that the query tokens match.
//
// A grid of persistent thread blocks. Each has one row tile (32 .. 128 query rows) in shared memory and goes through
// every n-th candidate. Token tiles come through a ring of cp.async stages that continues across documents. Warps
// multiply on tensor cores (FP32: by FFMA), and running maxima stay in registers. At a document's end the maxima of all
// warps are combined in shared memory, weighted and added. The similarity matrix never leaves the registers.
//
// NOTES:
//  - Products of tokens past the document's end use stale shared memory. They are masked when the maximum is taken. A
//    product depends only on its own row and token, so they affect nothing else.
//  - A document's score is added up one stage later than its last product: by then the threads have met at the barrier
//    that the ring needs anyway.
//  - Order of additions: see warp_tile.cuh for a product, query_tile_sum.cuh for a query tile, and PartialSums in
//    score_params.h for a score.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/score/portable/document_walk.cuh"
#include "kernels/cuda/score/portable/params.h"
#include "kernels/cuda/score/portable/row_maxima.cuh"
#include "kernels/cuda/score/portable/tile_loader.cuh"
#include "kernels/cuda/score/portable/warp_tile.cuh"
#include "kernels/cuda/score/query_tile_sum.cuh"
#include "kernels/plan/portable_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda::sm80 {

template <ScalarType kType, ScoreTile kTile, bool kResident, bool kAlign>
class ScoreBlock {
  static constexpr TileTraits kTraits = TraitsOf(kTile);
  static constexpr int kThreads = kTraits.threads();
  static constexpr int kRows = kTraits.rows;
  static constexpr int kTokens = kTraits.tokens;
  static constexpr int kPitch = kTraits.pitch();
  static constexpr int kChunkSteps = kTraits.chunk_bytes / kStepBytes;
  static constexpr int kWarpRows = kRows / kTraits.warps_rows;
  static constexpr int kWarpTokens = kTokens / kTraits.warps_tokens;
  static constexpr uint32_t kNone = 0xffffffffu;
  static_assert(!kAlign || kTraits.query_tiles() == 1);
  static constexpr bool kQuantized = kType == ScalarType::kI8;
  static constexpr bool kSeveralChains = !kQuantized && (kTile == ScoreTile::kRows32 || kTile == ScoreTile::kRows64);
  using Products = WarpTile<kType, kWarpRows, kWarpTokens, kPitch, kSeveralChains>;
  using Value = Sum<kType>;
  using Table = CandidateTable<kQuantized>;
  using Maxima = RowMaxima<Value, Products::kRowSlots, kAlign>;

 public:
  __device__ __forceinline__ ScoreBlock(const PortableParams& params, uint8_t* shared)
      : p_(params),
        shared_(shared),
        layout_(LayoutOf(kTile, kResident, kAlign, params.row_bytes, params.stages)),
        shared_address_(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
        thread_(threadIdx.x),
        lane_(threadIdx.x % 32),
        warp_row_(threadIdx.x / 32 / kTraits.warps_tokens),
        warp_token_(threadIdx.x / 32 % kTraits.warps_tokens) {}

  // Scores the candidates first, first + stride, ... (`count` of them) of a row tile.
  __device__ __forceinline__ void Run(const RowTile& tile, int64_t first, int64_t stride, uint32_t count) {
    // Loads the row tile, its weights and the first candidates. The barrier waits for readers of the previous row tile.
    const Table table(reinterpret_cast<Candidate*>(shared_ + layout_.table), p_.offsets, p_.scales,
                      tile.ordinals_begin < 0 ? nullptr : p_.ordinals + tile.ordinals_begin, first, stride, count);
    __syncthreads();
    const int num_rows = tile.num_query_tiles * kQueryTileTokens;
    const uint8_t* query = p_.query_rows + tile.first_row * p_.row_bytes;
    float* weights = reinterpret_cast<float*>(shared_ + layout_.weights);
    if ((!kAlign || kQuantized) && thread_ < num_rows) weights[thread_] = p_.row_weights[tile.first_row + thread_];
    table.Start(thread_);
    if constexpr (kResident) {
      LoadRows<kThreads>(shared_address_ + layout_.query, ResidentQueryPitch(p_.row_bytes), query, num_rows,
                         p_.row_bytes, thread_);
    }
    __syncthreads();

    // Loads are `stages` - 1 stages ahead of the arithmetic.
    Walk loads, work;
    for (int stage = 0; stage < p_.stages - 1; ++stage) StartStage(loads, table, query, num_rows, stage);

    Products products;
    Maxima maxima;
    products.Clear();
    maxima.Clear();
    uint32_t finished = kNone;  // candidate whose maxima wait in shared memory
    int stage = 0, load_stage = p_.stages - 1;
    while (work.candidate < count) {
      WaitCopies(p_.stages - 2);
      __syncthreads();
      StartStage(loads, table, query, num_rows, load_stage);
      if (finished != kNone) Finish(tile, num_rows, table.Position(finished), finished, table);
      finished = kNone;

      const int num_tokens = table[work.candidate].num_tokens;
      const int valid = num_tokens - work.token - warp_token_ * kWarpTokens;  // tokens of this warp's part
      if (valid > 0) MultiplyChunk(products, stage, work.chunk);
      if (kSeveralChains && valid > 0 && !work.LastChunk(p_.num_chunks) && (work.chunk + 1) % p_.chunks_of_chain == 0) {
        products.EndChain(work.chunk + 1 == p_.chunks_of_chain);
      }
      if (work.LastChunk(p_.num_chunks)) {
        if (valid > 0) {
          if (kSeveralChains && p_.num_chunks > p_.chunks_of_chain) products.JoinChains();
          maxima.Add(products, lane_, work.token + warp_token_ * kWarpTokens, valid, valid < kWarpTokens);
          products.Clear();
        }
        if (work.LastTile<kTokens>(num_tokens)) {
          StoreMaxima(maxima, work.candidate);
          maxima.Clear();
          finished = work.candidate;
        }
      }
      work.Advance<kTokens>(p_.num_chunks, num_tokens);
      stage = stage + 1 == p_.stages ? 0 : stage + 1;
      load_stage = load_stage + 1 == p_.stages ? 0 : load_stage + 1;
    }
    __syncthreads();
    Finish(tile, num_rows, table.Position(finished), finished, table);
  }

 private:
  // Starts the copies for the next position of the loads, if there is one. Closes the copy group in either case.
  __device__ __forceinline__ void StartStage(Walk& loads, const Table& table, const uint8_t* query, int num_rows,
                                             int stage) {
    if (loads.candidate < table.count()) {
      const Candidate candidate = table[loads.candidate];
      const uint32_t target = shared_address_ + layout_.stages + stage * layout_.stage_bytes;
      const uint8_t* rows = p_.tokens + (candidate.first_row + loads.token) * p_.row_bytes;
      LoadChunk<kThreads, kTokens, kTraits.chunk_bytes>(target, rows, candidate.num_tokens - loads.token, p_.row_bytes,
                                                        loads.chunk, thread_);
      if constexpr (!kResident) {
        LoadChunk<kThreads, kRows, kTraits.chunk_bytes>(target + kTokens * kPitch, query, num_rows, p_.row_bytes,
                                                        loads.chunk, thread_);
      }
      loads.Advance<kTokens>(p_.num_chunks, candidate.num_tokens);
      table.Refill(loads, thread_);
    }
    CommitCopies();
  }

  __device__ __forceinline__ void MultiplyChunk(Products& products, int stage, int chunk) const {
    const uint32_t ring = shared_address_ + layout_.stages + stage * layout_.stage_bytes;
    const int row_pitch = kResident ? ResidentQueryPitch(p_.row_bytes) : kPitch;
    const uint32_t rows =
        (kResident ? shared_address_ + layout_.query + chunk * kTraits.chunk_bytes : ring + kTokens * kPitch) +
        warp_row_ * kWarpRows * row_pitch + Products::RowLaneOffset(lane_, row_pitch);
    const uint32_t tokens = ring + warp_token_ * kWarpTokens * kPitch + Products::TokenLaneOffset(lane_);
    const int steps = min(kChunkSteps, p_.num_steps - chunk * kChunkSteps);
    if (steps == kChunkSteps) {
#pragma unroll
      for (int step = 0; step < kChunkSteps; ++step) {
        products.Step(rows + step * kStepBytes, row_pitch, tokens + step * kStepBytes);
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        products.Step(rows + step * kStepBytes, row_pitch, tokens + step * kStepBytes);
      }
    }
  }

  // Returns the warps' maxima of a candidate: [warps_tokens][rows] values, followed by as many tokens. There are two
  // such sets, which candidates use in turn. A set is written again two candidates later, after a barrier.
  __device__ __forceinline__ Value* MaximaOf(uint32_t candidate) const {
    constexpr int kValues = kTraits.warps_tokens * kRows;
    return reinterpret_cast<Value*>(shared_ + layout_.maxima) + (candidate % 2) * kValues * (kAlign ? 2 : 1);
  }

  __device__ __forceinline__ void StoreMaxima(Maxima& maxima, uint32_t candidate) const {
    maxima.Merge();
    Value* values = MaximaOf(candidate);
    int32_t* tokens = reinterpret_cast<int32_t*>(values + kTraits.warps_tokens * kRows);
    const int first = warp_token_ * kRows + warp_row_ * kWarpRows;
    maxima.Store(values + first, tokens + first, lane_);
  }

  // Combines the warps' maxima of each row. With kAlign, one thread per row writes the row's match. Otherwise one warp
  // per query tile adds up the weighted maxima and writes the sum. (The table still has the candidate: the loads are
  // fewer than kMaxStages candidates ahead of it.)
  __device__ __forceinline__ void Finish(const RowTile& tile, int num_rows, int64_t position, uint32_t candidate,
                                         const Table& table) const {
    const int row = thread_;
    if (row >= num_rows) return;
    const Value* values = MaximaOf(candidate);
    Value value = values[row];
    if constexpr (kAlign) {
      const int32_t* tokens = reinterpret_cast<const int32_t*>(values + kTraits.warps_tokens * kRows);
      int32_t token = tokens[row];
#pragma unroll
      for (int w = 1; w < kTraits.warps_tokens; ++w) {
        if (Beats(values[w * kRows + row], tokens[w * kRows + row], value, token)) {
          value = values[w * kRows + row];
          token = tokens[w * kRows + row];
        }
      }
      const int64_t query_token = tile.first_row + row;
      if (query_token >= p_.query_tokens) return;
      float similarity = ValueOf(value);
      if constexpr (kQuantized) {
        const float scale = reinterpret_cast<const float*>(shared_ + layout_.weights)[row];
        similarity = __fmul_rn(__fmul_rn(similarity, scale), table[candidate].scale);
      }
      p_.matches[position * p_.query_tokens + query_token] = {token, similarity};
    } else {
#pragma unroll
      for (int w = 1; w < kTraits.warps_tokens; ++w) value = Larger(value, values[w * kRows + row]);
      float sum = AddQueryTile(reinterpret_cast<const float*>(shared_ + layout_.weights)[row], ValueOf(value));
      if constexpr (kQuantized) sum = __fmul_rn(sum, table[candidate].scale);
      if (lane_ != 0) return;
      const QueryTileOutput& output = tile.outputs[row / kQueryTileTokens];
      if (output.to_partials) {
        p_.partials[output.offsets[0] + position - p_.pass_first] = sum;
      } else {
        p_.scores[output.offsets[0] + position] =
            __fadd_rn(sum, 0.0f);  // -0 becomes +0, so that the sort order is total
      }
    }
  }

  const PortableParams& p_;
  uint8_t* const shared_;
  const SharedLayout layout_;
  const uint32_t shared_address_;
  const int thread_;
  const int lane_;
  const int warp_row_;
  const int warp_token_;
};

template <ScalarType kType, ScoreTile kTile, bool kResident, bool kAlign>
__global__ void __launch_bounds__(TraitsOf(kTile).threads(), TraitsOf(kTile).min_blocks)
    PortableKernel(const __grid_constant__ PortableParams params) {
  extern __shared__ __align__(kPortableAlignment) uint8_t shared[];
  ScoreBlock<kType, kTile, kResident, kAlign> block(params, shared);
  const int64_t share = blockIdx.x / params.row_tiles_at_once;
  const int64_t stride = params.blocks_per_row_tile;
  for (int i = blockIdx.x % params.row_tiles_at_once; i < params.num_row_tiles; i += params.row_tiles_at_once) {
    const RowTile& tile = params.row_tiles[i];
    const int64_t in_pass = min(params.pass_count, tile.num_candidates - params.pass_first);
    if (in_pass <= share) continue;
    block.Run(tile, params.pass_first + share, stride, static_cast<uint32_t>((in_pass - share - 1) / stride + 1));
  }
}

}  // namespace maxsim::cuda::sm80
