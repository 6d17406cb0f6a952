// The multiplying warps: wgmma over token tiles, running maxima, and the sums of documents.
//
// A warp holds one block of 32 query rows, as two sets of 16 (its part of two m64 operands), in registers. Of a tile
// both sets' products are started; while they run, the previous document is summed and the next tile's word is read;
// then the maxima of the first set are taken while the second runs, and those of the second while the other warpgroup's
// run. No instruction is in flight across the loop's back edge: ptxas would serialise them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/grid_order.cuh"
#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/loader.cuh"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/cuda/sm90/ptx/wgmma.cuh"
#include "kernels/cuda/sm90/tile_word.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// kSteps: steps of 32 bytes that are multiplied; those past a row's end are zero.
template <ScalarType kType, int kSteps>
class Multiplier {
  static constexpr int kHalves = WideHalves(kSteps);
  static constexpr int kSets = 2;
  static constexpr int kSums = kWideTokens / 2;
  static constexpr int kStepsOfHalf = kWideHalfBytes / kStepBytes;
  static constexpr uint32_t kNone = 0xffffffff;  // no position: there are fewer candidates
  static constexpr int32_t kGrain = WideTokenGrain(kType, kHalves);
  static constexpr bool kQuantized = kType == ScalarType::kI8;
  using Value = Sum<kType>;
  using Sums = Value[kSets][kSums];

 public:
  __device__ __forceinline__ Multiplier(const ScoreParams& params, Ring<kHalves> ring, int warp, int lane)
      : p_(params), ring_(ring), warp_(warp), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    ClearMaxima();
    // Nothing to wait for as this is launched; without the instruction ptxas serialises wgmma.
    if constexpr (kQuantized) WaitForEarlierGrids();
    Sums sums;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[s][i] = 0;
    }
    TakeRows(static_cast<int32_t>(blockIdx.x % p_.num_row_tiles));  // where the block's work begins
    Fetch();
    while (!word_.End()) {
      if (!word_.IsFor(warp_ / 4)) {
        SkipTile();
        continue;
      }
      if (word_.NewRows()) {
        SumDocument();
        TakeRows(static_cast<int32_t>(LoadShared(ring_.Entry(at_.entry) + offsetof(TileEntry, row_tile))));
      }
      if (word_.Tokens() == kWideTokens) {
        MultiplyTile<kWideTokens, false>(sums);
      } else {
        MultiplyPartialTile<kWideTokens>(sums);
      }
    }
    SumDocument();
  }

 private:
  // Waits for the next tile and reads its word. (Without a loop beyond the wait's own: this runs while wgmma is in
  // flight, and ptxas would serialise it.)
  __device__ __forceinline__ void Fetch() {
    WaitBarrier(ring_.Full(at_.stage), at_.parity);
    word_ = TileWord(LoadShared(ring_.Entry(at_.entry) + offsetof(TileEntry, word)));
  }

  // Lets a tile of the other warpgroup go.
  __device__ __forceinline__ void SkipTile() {
    __syncwarp();
    Release(at_.stage);
    at_.Advance();
    Fetch();
  }

  __device__ __forceinline__ void Release(int stage) const {
    if (lane_ == 0) Arrive(ring_.Empty(stage));
  }

  // Loads the warp's block of a row tile: operands, weights, and where its sums go.
  __device__ __forceinline__ void TakeRows(int32_t row_tile) {
    const RowTile& tile = p_.row_tiles[row_tile];
    const int block = p_.documents_in_turn ? warp_ % 4 : warp_;
    const bool present = block < tile.num_blocks;
    const int64_t first = tile.first_row + block * kBlockTokens + lane_ / 4;
    const uint8_t* rows = p_.query_rows + first * p_.row_bytes + lane_ % 4 * 4;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = s * 16 + h * 8;
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int byte = k * kStepBytes + c * 16;
            a_[s][k][2 * c + h] = present && byte < p_.row_bytes
                                      ? *reinterpret_cast<const uint32_t*>(rows + int64_t{row} * p_.row_bytes + byte)
                                      : 0u;
          }
        }
      }
    }
    __syncwarp();  // the weights before have been read
    StoreShared(ring_.Weight(warp_, lane_),
                present ? p_.row_weights[tile.first_row + block * kBlockTokens + lane_] : 0.0f);
    __syncwarp();
    sums_out_ = nullptr;
    if (!present) return;
    const BlockOutput output = tile.outputs[block];
    sums_out_ = output.to_partials ? p_.partials + (output.offset - p_.pass_first) : p_.scores + output.offset;
  }

  __device__ __forceinline__ void ClearMaxima() {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) running_[s][i] = LowestSum<Value>();
    }
  }

  // Sets a document's maxima aside, to be summed while the next tile is multiplied.
  __device__ __forceinline__ void EndDocument(uint32_t position) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) ended_[s][h] = Larger(running_[s][2 * h], running_[s][2 * h + 1]);
    }
    ClearMaxima();
    ended_position_ = position;
    if constexpr (kQuantized) {
      // Kept in shared memory: wgmma leaves no register. The tile's entry lives on, as there are more than stages.
      // Every lane stores, as ptxas serialises wgmma for a branch; lane 0 has a place of its own.
      const int entry = (at_.entry + kWideTileEntries - 1) % kWideTileEntries;
      StoreShared(ring_.EndedScale(warp_, lane_), LoadSharedFloat(ring_.Entry(entry) + offsetof(TileEntry, scale)));
    }
  }

  // Adds the document that ended last: the butterfly over 32 rows (the contract's), of which row 16 s + 8 h + g is with
  // the four lanes of lane / 4 == g.
  __device__ __forceinline__ void SumDocument() {
    if (ended_position_ == kNone) return;
    const uint32_t position = ended_position_;
    ended_position_ = kNone;
    float term[kSets][2];
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Value maximum = ended_[s][h];
        maximum = Larger(maximum, __shfl_xor_sync(0xffffffffu, maximum, 1));
        maximum = Larger(maximum, __shfl_xor_sync(0xffffffffu, maximum, 2));
        term[s][h] = __fmul_rn(LoadSharedFloat(ring_.Weight(warp_, s * 16 + h * 8 + lane_ / 4)), ValueOf(maximum));
      }
    }
    float sum = __fadd_rn(__fadd_rn(term[0][0], term[1][0]), __fadd_rn(term[0][1], term[1][1]));
#pragma unroll
    for (int distance = 16; distance >= 4; distance /= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
    }
    if (lane_ == 0 && sums_out_ != nullptr) {
      if constexpr (kQuantized) sum = __fmul_rn(sum, LoadSharedFloat(ring_.EndedScale(warp_, 0)));
      // -0 becomes +0, so that the sort order is total.
      sums_out_[position] = __fadd_rn(sum, 0.0f);
    }
  }

  template <int N>
  __device__ __forceinline__ void StartProducts(Value (&sums)[kSums], int set, uint64_t tokens) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const uint64_t step =
          k / kStepsOfHalf * (kWideTokens * kWideHalfBytes / 16) + k % kStepsOfHalf * (kStepBytes / 16);
      MultiplyAdd<kType, N>(sums, a_[set][k], tokens + step, k > 0);
    }
    CommitGroup();
  }

  // The sums of tokens 8 j + 2 (lane % 4) and the next are [4 j + 0, 1] for row g, [4 j + 2, 3] for row g + 8. Masks
  // the tokens from num_valid on, which are among the last kGrain.
  template <int N, bool kMask>
  __device__ __forceinline__ void TakeMaxima(const Value (&sums)[kSums], int set, int num_valid) {
#pragma unroll
    for (int j = 0; j < N / 8; ++j) {
      const int token = j * 8 + lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool masked = kMask && j >= (N - kGrain) / 8 && token + i % 2 >= num_valid;
        running_[set][i] = Larger(running_[set][i], masked ? LowestSum<Value>() : sums[4 * j + i]);
      }
    }
  }

  template <int N, bool kMask>
  __device__ __forceinline__ void MultiplyTile(Sums& sums) {
    const int num_valid = word_.Tokens();
    const uint32_t ended = word_.Last() ? LoadShared(ring_.Entry(at_.entry) + offsetof(TileEntry, position)) : kNone;
    const int stage = at_.stage;
    const uint64_t tokens = DescribeOperand(ring_.Tile(stage));
    FenceOperands();
    StartProducts<N>(sums[0], 0, tokens);
    StartProducts<N>(sums[1], 1, tokens);
    at_.Advance();
    SumDocument();
    Fetch();
    WaitGroups<1>();
    Pin<N>(sums[0]);
    TakeMaxima<N, kMask>(sums[0], 0, num_valid);
    WaitGroups<0>();
    Pin<N>(sums[1]);
    __syncwarp();
    Release(stage);
    TakeMaxima<N, kMask>(sums[1], 1, num_valid);
    if (ended != kNone) EndDocument(ended);
  }

  // Finds the instance for the tile's number of tokens.
  template <int N>
  __device__ __forceinline__ void MultiplyPartialTile(Sums& sums) {
    if constexpr (N > 0) {
      if (word_.Grains() == N / kGrain) {
        MultiplyTile<N, true>(sums);
      } else {
        MultiplyPartialTile<N - kGrain>(sums);
      }
    }
  }

  const ScoreParams& p_;
  const Ring<kHalves> ring_;
  const int warp_;
  const int lane_;
  uint32_t a_[kSets][kSteps][4];
  Value running_[kSets][4];          // maxima so far: rows g and g + 8, even and odd tokens apart
  Value ended_[kSets][2];            // maxima of the document that ended last, not joined over lanes yet
  float* sums_out_ = nullptr;        // [position]; null when the row tile has no such block
  uint32_t ended_position_ = kNone;  // its position; kNone: no document waits to be summed
  RingPlace<Ring<kHalves>::kStages> at_;
  TileWord word_;
};

}  // namespace maxsim::cuda::sm90
