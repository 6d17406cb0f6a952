// Inner products of a query tile of 32 rows with a token tile, for the stream kernels. Short query rows are in
// registers, wide query rows in shared memory.
//
// NOTES:
//  - Past a tile's end, the tile's last token is read again: a maximum does not change if it sees a token twice. So
//    nothing is masked, and only bytes that were copied are read.
//  - Columns are permuted inside their group of 16, in the same way in both operands, so that a lane reads 8 bytes
//    together. The tensor cores' sum of a group does not depend on its order.
//  - Row slot 2 m + h of a lane is row 16 m + 8 h + lane / 4 of the query tile. Of each 8 tokens, a lane has the tokens
//    t = 2 (lane % 4) and t + 1. A lane ends up with the maximum of one row, OwnRow.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/hopper_stream/ring.cuh"
#include "kernels/cuda/score/portable/ptx/mma.cuh"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/limits.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm90 {

inline constexpr int kStreamHalves = kQueryTileTokens / 16;  // of the query tile: mma.sync takes 16 rows
inline constexpr int kStreamRotated = 4;                     // steps whose tokens are loaded together

__device__ __forceinline__ int OwnRow(int lane) { return lane % 2 * 16 + lane / 2 % 2 * 8 + lane / 4; }

// The products of 16 tokens with the query tile.
template <ScalarType kType>
class StreamSums {
 public:
  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int m = 0; m < kStreamHalves; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) at[m][0][i] = at[m][1][i] = 0;
    }
  }

  // Adds the products of one step. `b0` and `b1` are the lane's columns of tokens lane / 4 and 8 + lane / 4.
  __device__ __forceinline__ void Step(int m, const uint32_t (&a)[4], uint2 b0, uint2 b1) {
    sm80::MultiplyAdd<kType>(at[m][0], a, b0.x, b0.y);
    sm80::MultiplyAdd<kType>(at[m][1], a, b1.x, b1.y);
  }

  // Adds another chain's sums to these. INT8 sums have only one chain.
  __device__ __forceinline__ void Add(const StreamSums& chain) {
#pragma unroll
    for (int m = 0; m < kStreamHalves; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        at[m][0][i] = __fadd_rn(at[m][0][i], chain.at[m][0][i]);
        at[m][1][i] = __fadd_rn(at[m][1][i], chain.at[m][1][i]);
      }
    }
  }

  Sum<kType> at[kStreamHalves][2][4];
};

// The maxima of a lane's row slots over tokens. Value is the Sum of the storage type.
template <class Value>
class StreamMaxima {
 public:
  __device__ __forceinline__ StreamMaxima() {
#pragma unroll
    for (int m = 0; m < kStreamHalves; ++m) running_[m][0] = running_[m][1] = LowestSum<Value>();
  }

  template <ScalarType kType>
  __device__ __forceinline__ void Take(const StreamSums<kType>& sums) {
#pragma unroll
    for (int m = 0; m < kStreamHalves; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Value pair0 = Larger(sums.at[m][0][2 * h], sums.at[m][0][2 * h + 1]);
        const Value pair1 = Larger(sums.at[m][1][2 * h], sums.at[m][1][2 * h + 1]);
        running_[m][h] = Larger(running_[m][h], Larger(pair0, pair1));
      }
    }
  }

  // Combines the maxima of the four lanes that have the same four rows. Each of these lanes gets the maximum of one
  // row, OwnRow.
  __device__ __forceinline__ Value OfOwnRow(int lane) const {
    const bool upper = lane % 2 != 0, second = lane / 2 % 2 != 0;
    Value keep[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Value give = upper ? running_[0][h] : running_[1][h];
      keep[h] = Larger(upper ? running_[1][h] : running_[0][h], __shfl_xor_sync(0xffffffffu, give, 1));
    }
    const Value give = second ? keep[0] : keep[1];
    return Larger(second ? keep[1] : keep[0], __shfl_xor_sync(0xffffffffu, give, 2));
  }

 private:
  Value running_[kStreamHalves][2];
};

// Loads the lane's 8 bytes of four steps, beginning with step `turn` % 4, and puts them in order.
__device__ __forceinline__ void LoadTurned(uint32_t address, int turn, uint2 (&steps)[kStreamRotated]) {
  uint2 loaded[kStreamRotated], turned[kStreamRotated];
#pragma unroll
  for (int j = 0; j < kStreamRotated; ++j) {
    loaded[j] = LoadShared64(address + (j + turn) % kStreamRotated * kStepBytes);
  }
#pragma unroll
  for (int j = 0; j < kStreamRotated; ++j) turned[j] = turn & 1 ? loaded[(j + 3) % 4] : loaded[j];
#pragma unroll
  for (int j = 0; j < kStreamRotated; ++j) steps[j] = turn & 2 ? turned[(j + 2) % 4] : turned[j];
}

// Rows of at most kSteps steps of 32 bytes: the query rows are operands in registers, zero past a row's end.
template <ScalarType kType, int kSteps>
class RegisterRows {
 public:
  static constexpr ScalarType kStorage = kType;
  static constexpr bool kTakenEarly = true;  // before the first tile arrives

  __device__ __forceinline__ RegisterRows(const StreamParams& params, const StreamRing&, int lane)
      : p_(params), lane_(lane) {}

  // Takes the rows of the row tile into registers.
  __device__ __forceinline__ void Take(int32_t row_tile, uint32_t) {
    const uint8_t* const rows = p_.query_rows + int64_t{row_tile} * kQueryTileTokens * StreamQueryPitch(p_.row_bytes);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int m = 0; m < kStreamHalves; ++m) {
        uint4 operand{0, 0, 0, 0};
        if (k < p_.num_steps) {
          operand = *reinterpret_cast<const uint4*>(rows + ((k * kStreamHalves + m) * 32 + lane_) * sizeof(uint4));
        }
        a_[m][k][0] = operand.x;
        a_[m][k][1] = operand.y;
        a_[m][k][2] = operand.z;
        a_[m][k][3] = operand.w;
      }
    }
  }

  // Returns the maximum of the lane's own row over a tile.
  __device__ __forceinline__ Sum<kType> Multiply(uint32_t tile, int num_tokens) const {
    return p_.row_bytes == kSteps * kStepBytes ? MultiplyTile<false>(tile, num_tokens)
                                               : MultiplyTile<true>(tile, num_tokens);
  }

 private:
  // Rows of 256 bytes all begin in the same bank, and each phase of a load reads four rows. So each row is read from a
  // different step on, which puts them into different banks.
  template <bool kShortRows>
  __device__ __forceinline__ Sum<kType> MultiplyTile(uint32_t tile, int num_tokens) const {
    StreamMaxima<Sum<kType>> maxima;
    const int group = lane_ / 4, quarter = lane_ % 4 * 8, last = num_tokens - 1;
#pragma unroll 1
    for (int first = group; first - group < num_tokens; first += 16) {
      const uint32_t token0 = tile + min(first, last) * p_.row_bytes + quarter;
      const uint32_t token1 = tile + min(first + 8, last) * p_.row_bytes + quarter;
      StreamSums<kType> sums;
      sums.Clear();
#pragma unroll
      for (int k0 = 0; k0 < kSteps; k0 += kStreamRotated) {
        uint2 b0[kStreamRotated], b1[kStreamRotated];
        if (kShortRows || k0 + kStreamRotated > kSteps) {
#pragma unroll
          for (int j = 0; j < kStreamRotated; ++j) {
            b0[j] = b1[j] = uint2{0, 0};
            if (k0 + j >= kSteps || (kShortRows && (k0 + j) * kStepBytes + quarter >= p_.row_bytes)) continue;
            b0[j] = LoadShared64(token0 + (k0 + j) * kStepBytes);
            b1[j] = LoadShared64(token1 + (k0 + j) * kStepBytes);
          }
        } else {
          LoadTurned(token0 + k0 * kStepBytes, group, b0);
          LoadTurned(token1 + k0 * kStepBytes, group, b1);
        }
#pragma unroll
        for (int j = 0; j < kStreamRotated; ++j) {
          if (k0 + j >= kSteps) continue;
#pragma unroll
          for (int m = 0; m < kStreamHalves; ++m) sums.Step(m, a_[m][k0 + j], b0[j], b1[j]);
        }
      }
      maxima.Take(sums);
    }
    return maxima.OfOwnRow(lane_);
  }

  const StreamParams& p_;
  const int lane_;
  uint32_t a_[kStreamHalves][kSteps][4];
};

// Rows of any width: the query rows lie in shared memory, where the loading warp copies them.
template <ScalarType kType>
class SharedRows {
 public:
  static constexpr ScalarType kStorage = kType;
  static constexpr bool kTakenEarly = false;

  __device__ __forceinline__ SharedRows(const StreamParams& params, const StreamRing& ring, int lane)
      : p_(params),
        ring_(ring),
        lane_(lane),
        operands_(ring.Query() + lane * static_cast<uint32_t>(sizeof(uint4))),
        turn_(params.row_bytes / kStepBytes % 2 == 0 ? lane / 4 : 0) {}

  // Waits for the rows that arrive in this phase of QueryFull.
  __device__ __forceinline__ void Take(int32_t, uint32_t phase) const { WaitBarrier(ring_.QueryFull(), phase); }

  // Returns the maximum of the lane's own row over a tile. A tile's rows are not padded: if their size is an even
  // multiple of 32 bytes, each is read from a different step on (see RegisterRows).
  __device__ __forceinline__ Sum<kType> Multiply(uint32_t tile, int num_tokens) const {
    StreamMaxima<Sum<kType>> maxima;
    const int group = lane_ / 4, quarter = lane_ % 4 * 8, last = num_tokens - 1;
    const int in_fours = p_.row_bytes / (kStreamRotated * kStepBytes) * kStreamRotated;  // whole steps
#pragma unroll 1
    for (int first = group; first - group < num_tokens; first += 16) {
      const uint32_t token0 = tile + min(first, last) * p_.row_bytes + quarter;
      const uint32_t token1 = tile + min(first + 8, last) * p_.row_bytes + quarter;
      StreamSums<kType> totals;
#pragma unroll 1
      for (int chain = 0; chain < p_.num_steps; chain += kChainSteps) {
        StreamSums<kType> sums;
        sums.Clear();
        int k = chain;
#pragma unroll 2
        for (; k < min(chain + kChainSteps, in_fours); k += kStreamRotated) {
          uint2 b0[kStreamRotated], b1[kStreamRotated];
          LoadTurned(token0 + k * kStepBytes, turn_, b0);
          LoadTurned(token1 + k * kStepBytes, turn_, b1);
#pragma unroll
          for (int j = 0; j < kStreamRotated; ++j) AddStep(k + j, b0[j], b1[j], sums);
        }
#pragma unroll 1
        for (; k < min(chain + kChainSteps, p_.num_steps); ++k) {
          uint2 b0{0, 0}, b1{0, 0};
          if (k * kStepBytes + quarter < p_.row_bytes) {
            b0 = LoadShared64(token0 + k * kStepBytes);
            b1 = LoadShared64(token1 + k * kStepBytes);
          }
          AddStep(k, b0, b1, sums);
        }
        if constexpr (kType == ScalarType::kI8) {
          totals = sums;
        } else if (chain == 0) {
          totals = sums;
        } else {
          totals.Add(sums);
        }
      }
      maxima.Take(totals);
    }
    return maxima.OfOwnRow(lane_);
  }

 private:
  // INT8 sums are exact, so they need only one chain.
  static constexpr int kChainSteps = kType == ScalarType::kI8 ? kMaxDim / kStepBytes : kChainColumns * 2 / kStepBytes;
  static_assert(kChainSteps % kStreamRotated == 0);

  // Adds the products of step k. The query's columns past a row's end are zero.
  __device__ __forceinline__ void AddStep(int k, uint2 b0, uint2 b1, StreamSums<kType>& sums) const {
#pragma unroll
    for (int m = 0; m < kStreamHalves; ++m) {
      uint32_t a[4];
      LoadShared(operands_ + (k * kStreamHalves + m) * 32 * static_cast<uint32_t>(sizeof(uint4)), a[0], a[1], a[2],
                 a[3]);
      sums.Step(m, a, b0, b1);
    }
  }

  const StreamParams& p_;
  const StreamRing& ring_;
  const int lane_;
  const uint32_t operands_;  // address of the lane's first operand
  const int turn_;
};

}  // namespace maxsim::cuda::sm90
