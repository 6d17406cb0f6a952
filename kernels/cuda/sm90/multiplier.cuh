// The multiplying warps: wgmma over token tiles, running maxima, and the sums of documents.
//
// A warp holds one block of 32 query rows, as two sets of 16 (its part of two m64 operands), in registers. Of a tile
// both sets' products are started. While they run, the documents that ended in the tile before are summed, where there
// are registers for it, and the next tile's header is read. Then the maxima are taken: of the first set while the
// second runs where no document ends before the tile's last group, else of both at once, while the other warpgroup's
// products run. No instruction is in flight across the loop's back edge: ptxas would serialise them.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/block_maxima.cuh"
#include "kernels/cuda/sm90/loader.cuh"
#include "kernels/cuda/sm90/ptx/mbarrier.cuh"
#include "kernels/cuda/sm90/ptx/wgmma.cuh"
#include "kernels/cuda/sm90/token_tile.cuh"
#include "kernels/cuda/sm90/turns.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// kSteps: steps of 32 bytes that are multiplied; those past a row's end are zero.
template <ScalarType kType, int kSteps>
class Multiplier {
  static constexpr int kHalves = WideHalves(kSteps);
  static constexpr int kSets = kSetsOfBlock;
  static constexpr int kSums = kWideTokens / 2;
  static constexpr int kStepsOfHalf = kWideHalfBytes / kStepBytes;
  // There are registers to keep, while a tile is multiplied, where documents end in it, and the terms of those that
  // ended in the one before, so that those are summed meanwhile.
  static constexpr bool kKeeps = kSteps <= 6;
  static constexpr uint32_t kLastGroup = 1u << (TileGroups(kWideTokens) - 1);
  using Value = Sum<kType>;
  using Sums = Value[kSets][kSums];

 public:
  __device__ __forceinline__ Multiplier(const ScoreParams& params, Ring<kHalves> ring, int warp, int lane)
      : p_(params),
        ring_(ring),
        warp_(warp),
        lane_(lane),
        turns_(warp / 4, params.documents_in_turn == 0),
        maxima_(lane) {}

  __device__ __forceinline__ void Run() {
    Sums sums;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[s][i] = 0;
    }
    TakeRows(static_cast<int32_t>(blockIdx.x % p_.num_row_tiles));  // where the block's work begins
    Fetch();
    while (!header_.End()) {
      if (!header_.IsFor(warp_ / 4)) {
        Settle();
        Release(at_.stage);
        at_.Advance();
        Fetch();
        continue;
      }
      if (header_.NewRows()) {
        Settle();
        TakeRows(TileHeader::LoadRowTile(ring_.Entry(at_.stage), lane_));
      }
      if ((header_.ends & ~kLastGroup) == 0) {
        MultiplyWhole(sums);
      } else {
        MultiplyEnding(sums);
      }
    }
    Settle();
  }

 private:
  // Waits for the next tile and reads what to do with it. (Without a loop beyond the wait's own: this runs while wgmma
  // is in flight, and ptxas would serialise it.)
  __device__ __forceinline__ void Fetch() {
    WaitBarrier(ring_.Full(at_.stage), at_.parity);
    header_ = TileHeader::Load</*kAll=*/false>(ring_.Entry(at_.stage), lane_);
  }

  // Sums the documents that ended in the last tile, and lets go of it. To be called before anything that may wait for
  // the loading warp, which may wait for the tile.
  __device__ __forceinline__ void Settle() {
    if (held_ < 0) return;
    maxima_.SumEnded();
    Release(held_);
    held_ = -1;
  }

  // Lets the tile go.
  __device__ __forceinline__ void Release(int stage) const {
    __syncwarp();
    if (lane_ < kReadingLanes) Arrive(ring_.Empty(stage));
  }

  // Loads the warp's block of a row tile: operands, weights, and where its sums go.
  __device__ __forceinline__ void TakeRows(int32_t row_tile) {
    const RowTile& tile = p_.row_tiles[row_tile];
    const int block = p_.documents_in_turn ? warp_ % 4 : warp_;
    const bool present = block < tile.num_blocks;
    int lane = lane_;
    asm volatile("" : "+r"(lane));  // so that nothing is computed from it ahead of time, and kept
    const int64_t first = tile.first_row + block * kBlockTokens + lane / 4;
    const uint8_t* rows = p_.query_rows + first * p_.row_bytes + lane % 4 * 4;
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
    maxima_.TakeBlock(p_, tile, block);
  }

  __device__ __forceinline__ void StartProducts(Value (&sums)[kSums], int set, uint64_t tokens) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const uint64_t step =
          k / kStepsOfHalf * (kWideTokens * kWideHalfBytes / 16) + k % kStepsOfHalf * (kStepBytes / 16);
      MultiplyAdd<kType>(sums, a_[set][k], tokens + step, k > 0);
    }
    CommitGroup();
  }

  // Starts the tile's products, and meanwhile goes on to the next one. Returns the tile's stage.
  __device__ __forceinline__ int StartTile(Sums& sums) {
    // From one lane, as headers are.
    const int stage = __shfl_sync(0xffffffffu, at_.stage, 0);
    const uint64_t tokens = DescribeOperand(ring_.Tile(stage));
    turns_.Wait();
    FenceOperands();
    StartProducts(sums[0], 0, tokens);
    StartProducts(sums[1], 1, tokens);
    turns_.Pass();
    if constexpr (kKeeps) Settle();
    at_.Advance();
    Fetch();
    return stage;
  }

  // A tile amid a document, or whose last group ends one.
  __device__ __forceinline__ void MultiplyWhole(Sums& sums) {
    constexpr int kBefore = kWideTokens - kGroupTokens;
    TileEnds ends = header_;
    const bool ending = header_.ends != 0;
    const int stage = StartTile(sums);
    WaitGroups<1>();
    Pin<kWideTokens>(sums[0]);
    maxima_.template Take<kBefore>(sums[0], 0);
    WaitGroups<0>();
    Pin<kWideTokens>(sums[1]);
    if (!ending) Release(stage);
    maxima_.template Take<kBefore>(sums[1], 1);
    if (!ending) {
      maxima_.TakeGroup(sums, TileGroups(kBefore));
      return;
    }
    if constexpr (!kKeeps) ends = TileHeader::Load</*kAll=*/false>(ring_.Entry(stage), lane_);
    maxima_.TakeOnlyEnd(sums, TileGroups(kBefore), ends, ring_.Entry(stage));
    held_ = stage;
    if constexpr (!kKeeps) Settle();
  }

  // A tile in which documents end.
  __device__ __forceinline__ void MultiplyEnding(Sums& sums) {
    TileEnds ends = header_;
    const int stage = StartTile(sums);
    WaitGroups<0>();
    Pin<kWideTokens>(sums[0]);
    Pin<kWideTokens>(sums[1]);
    if constexpr (!kKeeps) ends = TileHeader::Load</*kAll=*/false>(ring_.Entry(stage), lane_);
    maxima_.template TakeEnding<kWideTokens>(sums, ends, ring_.Entry(stage));
    held_ = stage;
    if constexpr (!kKeeps) Settle();
  }

  const ScoreParams& p_;
  const Ring<kHalves> ring_;
  const int warp_;
  const int lane_;
  const Turns turns_;
  BlockMaxima<kType> maxima_;
  uint32_t a_[kSets][kSteps][4];
  RingPlace<Ring<kHalves>::kStages> at_;
  TileHeader header_;  // of the tile there, its first words
  int held_ = -1;      // stage of a tile whose last documents have not been summed
};

}  // namespace maxsim::cuda::sm90
