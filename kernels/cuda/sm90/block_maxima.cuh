// Running maxima of a warp's block of 32 query rows over token tiles, and the sums of documents: the end of every wgmma
// kernel.
//
// The warp's sums are two sets of 16 rows, as wgmma leaves them: of set s, lane l has rows 16 s + l / 4 and 8 further,
// of tokens 8 j + 2 (l % 4) and the next: [4 j + 0, 1] and [4 j + 2, 3] for group j.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/token_tile.cuh"
#include "kernels/cuda/sums.cuh"
#include "kernels/plan.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

inline constexpr int kSetsOfBlock = 2;

template <ScalarType kType>
class BlockMaxima {
  static constexpr bool kQuantized = kType == ScalarType::kI8;

 public:
  using Value = Sum<kType>;

  __device__ __forceinline__ explicit BlockMaxima(int lane)
      : lane_(lane), odd_((lane & 1) != 0), second_pair_((lane & 2) != 0) {
    Clear();
  }

  // Takes weights and output of a block, which the row tile may lack, and begins anew.
  __device__ __forceinline__ void TakeBlock(const ScoreParams& params, const RowTile& tile, int block) {
    Clear();
    weight_ = 0;
    sums_out_ = nullptr;
    num_queries_ = 1;
    if (block >= tile.num_blocks) return;
    const int row = lane_ % 2 * 16 + lane_ / 2 % 2 * 8 + lane_ / 4;
    weight_ = params.row_weights[tile.first_row + block * kBlockTokens + row];
    const BlockOutput& output = tile.outputs[block];
    num_queries_ = __shfl_sync(0xffffffffu, output.num_queries, 0);
    const int query = row * num_queries_ / kBlockTokens;
    const int64_t offset = output.offsets[query];
    // Of a shared block one lane of a query's writes its sums.
    if (num_queries_ > 1 && (lane_ >= num_queries_ || offset < 0)) return;
    sums_out_ = output.to_partials ? params.partials + (offset - params.pass_first) : params.scores + offset;
  }

  // Takes a set's maxima of a tile's first N tokens, in which no document ends.
  template <int N, int kSums>
  __device__ __forceinline__ void Take(const Value (&sums)[kSums], int set) {
#pragma unroll
    for (int j = 0; j < TileGroups(N); ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) running_[set][i] = Larger(running_[set][i], sums[4 * j + i]);
    }
  }

  // The same of one group, of both sets.
  template <int kSums>
  __device__ __forceinline__ void TakeGroup(const Value (&sums)[kSetsOfBlock][kSums], int group) {
#pragma unroll
    for (int s = 0; s < kSetsOfBlock; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) running_[s][i] = Larger(running_[s][i], sums[s][4 * group + i]);
    }
  }

  // Takes both sets' maxima of the group that ends the tile's only document that ends; the others have been taken.
  template <int kSums>
  __device__ __forceinline__ void TakeOnlyEnd(const Value (&sums)[kSetsOfBlock][kSums], int group, const TileEnds& tile,
                                              uint32_t entry) {
    TakeLastGroup(sums, group, tile.Last(group));
    piece_ = TilePiece::Address(entry, 1);
  }

  // Takes both sets' maxima of a tile's first N tokens. Of the documents that end among them the last ones, up to four,
  // are left to be summed (SumEnded), for which `entry`, that describes the tile, must be there still.
  template <int N, int kSums>
  __device__ __forceinline__ void TakeEnding(const Value (&sums)[kSetsOfBlock][kSums], const TileEnds& tile,
                                             uint32_t entry) {
    const uint32_t ends = tile.ends;
    uint32_t piece = TilePiece::Address(entry, 0);
#pragma unroll
    for (int first = 0; first < TileGroups(N); first += kRun) {
      const uint32_t ends_of_run = ends >> first & ((1u << kRun) - 1);
      if (ends_of_run == 0) {
#pragma unroll
        for (int j = first; j < first + kRun; ++j) TakeGroup(sums, j);
      } else {
        if (ended_ + __popc(ends_of_run) > kMostEnded) {
          piece_ = piece;
          SumEnded();
        }
#pragma unroll
        for (int j = first; j < first + kRun; ++j) {
          if ((ends >> j & 1) == 0) {
            TakeGroup(sums, j);
          } else {
            TakeLastGroup(sums, j, tile.Last(j));
            piece += kTilePieceBytes;
          }
        }
      }
    }
    piece_ = piece;
  }

  // Sums the documents that have ended: the butterfly over 32 rows (the contract's).
  __device__ __forceinline__ void SumEnded() {
    if (ended_ == 0) return;
    if (num_queries_ == 1) {
      SumForOneQuery(piece_);
    } else {
      SumForSeveralQueries(piece_);
    }
    ended_ = 0;
  }

 private:
  // Groups that are taken at once where no document ends in them, and ended documents that are summed at once.
  static constexpr int kRun = 4;
  static constexpr int kMostEnded = 4;
  static_assert(kRun <= kMostEnded);
  static_assert(kMostEnded <= kReadingLanes && kMaxQueriesOfBlock <= kReadingLanes);

  // A group whose token `last` is a document's last. The document's terms are kept until they are summed.
  template <int kSums>
  __device__ __forceinline__ void TakeLastGroup(const Value (&sums)[kSetsOfBlock][kSums], int group, uint32_t last) {
    const uint32_t first_token = lane_ % 4 * 2;
    const bool first_counts = first_token <= last, second_counts = first_token < last;
    Value of_set[kSetsOfBlock][2];
#pragma unroll
    for (int s = 0; s < kSetsOfBlock; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Value first = first_counts ? sums[s][4 * group + 2 * h] : LowestSum<Value>();
        const Value second = second_counts ? sums[s][4 * group + 2 * h + 1] : LowestSum<Value>();
        of_set[s][h] = Larger(Larger(running_[s][2 * h], first), Larger(running_[s][2 * h + 1], second));
      }
    }
    Clear();
    // The four lanes of lane / 4 have the same rows g = lane / 4, 8, 16 and 24 further. Each comes to have one of them:
    // 16 (lane % 2) + 8 (lane / 2 % 2) + g.
    Value of_half[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      of_half[h] = Larger(odd_ ? of_set[1][h] : of_set[0][h],
                          __shfl_xor_sync(0xffffffffu, odd_ ? of_set[0][h] : of_set[1][h], 1));
    }
    const Value maximum = Larger(second_pair_ ? of_half[1] : of_half[0],
                                 __shfl_xor_sync(0xffffffffu, second_pair_ ? of_half[0] : of_half[1], 2));
#pragma unroll
    for (int i = 0; i + 1 < kMostEnded; ++i) terms_[i] = terms_[i + 1];
    terms_[kMostEnded - 1] = __fmul_rn(weight_, ValueOf(maximum));
    ++ended_;
  }

  // The documents' pieces lie before `piece`. With the first two distances of the butterfly lanes go on with fewer
  // documents each, so that lane % 4 says which.
  __device__ __forceinline__ void SumForOneQuery(uint32_t piece) {
    float of_pair[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float kept = odd_ ? terms_[2 * i + 1] : terms_[2 * i];
      const float given = odd_ ? terms_[2 * i] : terms_[2 * i + 1];
      of_pair[i] = __fadd_rn(kept, __shfl_xor_sync(0xffffffffu, given, 1));  // rows 16 apart
    }
    float sum = __fadd_rn(second_pair_ ? of_pair[1] : of_pair[0],
                          __shfl_xor_sync(0xffffffffu, second_pair_ ? of_pair[0] : of_pair[1], 2));  // 8 apart
#pragma unroll
    for (int lanes = 16; lanes >= 4; lanes /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
    const int place = lane_ - kMostEnded;
    if (place < 0 && place >= -ended_) Write(sum, piece + place * kTilePieceBytes);
  }

  // Queries of 16 rows are each with the lanes of one lane % 2, and of 8 rows with those of one lane % 4. The
  // butterfly's greater distances would add absent tokens.
  __device__ __forceinline__ void SumForSeveralQueries(uint32_t piece) {
#pragma unroll
    for (int i = 0; i < kMostEnded; ++i) {
      float sum = terms_[i];
      const float of_pair = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));  // rows 8 apart
      if (num_queries_ == 2) sum = of_pair;
#pragma unroll
      for (int lanes = 16; lanes >= 4; lanes /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
      if (i >= kMostEnded - ended_) Write(sum, piece + (i - kMostEnded) * kTilePieceBytes);
    }
  }

  __device__ __forceinline__ void Write(float sum, uint32_t piece) const {
    if (sums_out_ == nullptr) return;
    const TilePiece document = TilePiece::Load(piece);
    if constexpr (kQuantized) sum = __fmul_rn(sum, document.scale);
    // -0 becomes +0, so that the sort order is total.
    sums_out_[document.position] = __fadd_rn(sum, 0.0f);
  }

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int s = 0; s < kSetsOfBlock; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) running_[s][i] = LowestSum<Value>();
    }
  }

  const int lane_;
  const bool odd_, second_pair_;    // of four lanes
  Value running_[kSetsOfBlock][4];  // maxima so far: rows g and g + 8, even and odd tokens apart
  float terms_[kMostEnded] = {};    // of documents that have ended, the newest last: of the row that the lane sums
  int ended_ = 0;                   // of them
  uint32_t piece_ = 0;              // address behind the last one's piece
  float weight_ = 0;                // of that row
  int num_queries_ = 1;             // that share the block
  float* sums_out_ = nullptr;       // [position]; null where the row tile has no such block, or the lane writes nothing
};

}  // namespace maxsim::cuda::sm90
