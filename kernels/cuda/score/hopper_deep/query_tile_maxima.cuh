// Running maxima of a warp's query tile of 32 rows over token tiles of the deep kernels.
//
// The warp's sums are two sets of 16 rows, in the places where wgmma leaves them. Of set s, lane l has rows r = 16 s +
// l / 4 and r + 8, and of octet j tokens t = 8 j + 2 (l % 4) and t + 1. Sums 4 j and 4 j + 1 of the set belong to row
// r, and sums 4 j + 2 and 4 j + 3 to row r + 8.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/query_tile_sums.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/score_params.h"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/hopper_shape.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

inline constexpr int kSetsOfQueryTile = 2;

template <ScalarType kType>
class QueryTileMaxima {
 public:
  using Value = Sum<kType>;

  __device__ __forceinline__ explicit QueryTileMaxima(int lane) : lane_(lane), sums_(lane) { Clear(); }

  // Begins with query tile `block` (32 query rows) of the row tile: clears the maxima, reads the query tile's weights,
  // and notes where its sums are written. If the row tile has no such query tile, the weights are 0 and no sums are
  // written.
  __device__ __forceinline__ void TakeQueryTile(const ScoreParams& params, const RowTile& tile, int block) {
    Clear();
    sums_.TakeQueryTile(params, tile, block);
  }

  // Updates the maxima with a tile's first N tokens, and sums the documents that end among them. `entry` describes the
  // tile.
  template <int N, int kSums>
  __device__ __forceinline__ void Take(const Value (&sums)[kSetsOfQueryTile][kSums], const TileEnds& tile,
                                       uint32_t entry) {
    uint32_t piece = TilePiece::Address(entry, 0);
#pragma unroll
    for (int first = 0; first < TileOctets(N); first += kRun) {
      const uint32_t ends_of_run = tile.ends >> first & ((1u << kRun) - 1);
      if (ends_of_run == 0) {
#pragma unroll
        for (int j = first; j < first + kRun; ++j) TakeOctet(sums, j);
      } else {
        if (ended_ + __popc(ends_of_run) > kMaxEnded) SumEnded(piece);
#pragma unroll
        for (int j = first; j < first + kRun; ++j) {
          if ((tile.ends >> j & 1) == 0) {
            TakeOctet(sums, j);
          } else {
            TakeLastOctet(sums, j, tile.Last(j));
            piece += kTilePieceBytes;
          }
        }
      }
    }
    SumEnded(piece);
  }

 private:
  // The number of octets that one step takes together if no document ends in any of them.
  static constexpr int kRun = 4;
  static constexpr int kMaxEnded = QueryTileSums<kType>::kMaxTerms;
  static_assert(kRun <= kMaxEnded);

  template <int kSums>
  __device__ __forceinline__ void TakeOctet(const Value (&sums)[kSetsOfQueryTile][kSums], int octet) {
#pragma unroll
    for (int s = 0; s < kSetsOfQueryTile; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int first = 4 * octet + 2 * h;
        running_[s][h] = Larger(running_[s][h], Larger(sums[s][first], sums[s][first + 1]));
      }
    }
  }

  // Handles an octet whose token `last` is a document's last.
  template <int kSums>
  __device__ __forceinline__ void TakeLastOctet(const Value (&sums)[kSetsOfQueryTile][kSums], int octet,
                                                uint32_t last) {
    const uint32_t first_token = lane_ % 4 * 2;
    const bool first_counts = first_token <= last, second_counts = first_token < last;
    Value of_set[kSetsOfQueryTile][2];
#pragma unroll
    for (int s = 0; s < kSetsOfQueryTile; ++s) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Value first = first_counts ? sums[s][4 * octet + 2 * h] : LowestSum<Value>();
        const Value second = second_counts ? sums[s][4 * octet + 2 * h + 1] : LowestSum<Value>();
        of_set[s][h] = Larger(running_[s][h], Larger(first, second));
      }
    }
    Clear();
    // The four lanes with the same lane / 4 have the same four rows: g = lane / 4, g + 8, g + 16 and g + 24. Each of
    // these lanes ends up with the maximum of one row, the row that the lane sums.
    const bool odd = (lane_ & 1) != 0, second_pair = (lane_ & 2) != 0;
    Value of_half[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      of_half[h] =
          Larger(odd ? of_set[1][h] : of_set[0][h], __shfl_xor_sync(0xffffffffu, odd ? of_set[0][h] : of_set[1][h], 1));
    }
    const Value maximum = Larger(second_pair ? of_half[1] : of_half[0],
                                 __shfl_xor_sync(0xffffffffu, second_pair ? of_half[0] : of_half[1], 2));
#pragma unroll
    for (int i = 0; i + 1 < kMaxEnded; ++i) terms_[i] = terms_[i + 1];
    terms_[kMaxEnded - 1] = sums_.Term(maximum);
    ++ended_;
  }

  // Sums the documents that have ended; the last one's piece ends at `piece`.
  __device__ __forceinline__ void SumEnded(uint32_t piece) {
    if (ended_ == 0) return;
    sums_.Sum(terms_, kMaxEnded - ended_, kMaxEnded, piece - kMaxEnded * kTilePieceBytes);
    ended_ = 0;
    // Hides the value from the compiler, which would make separate code for every value and need more registers.
    asm volatile("" : "+r"(ended_));
  }

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int s = 0; s < kSetsOfQueryTile; ++s) {
      running_[s][0] = running_[s][1] = LowestSum<Value>();
    }
  }

  const int lane_;
  Value running_[kSetsOfQueryTile][2];  // maxima so far of rows g and g + 8 of each set
  float terms_[kMaxEnded] = {};         // terms of the lane's row in the documents that have ended, the newest last
  int ended_ = 0;                       // number of documents that have ended
  QueryTileSums<kType> sums_;
};

}  // namespace maxsim::cuda::sm90
