// A warp's part of a tile: inner products of kRows query rows with kTokens document tokens. Rows and tokens are in
// shared memory. Products are accumulated in registers step by step; a step takes kStepBytes of each row.
//
// The order of additions is part of the contract (docs/internals/correctness.md): each pair has one accumulator, to
// which the steps are added in the order of the stored columns. In half precision a step is one tensor-core instruction
// over 16 consecutive columns; in FP32 the columns are added one by one. Rows of more than kChainColumns columns are
// summed chain by chain, and the chains' sums added in order. INT8 products have exact int32 sums, whatever the order.
//
// Both variants distribute the results over the lanes in the same way. With g = lane / 4, Value(r, c) belongs to row g
// + 8 r and to token TokenOf(lane, c), which grows with c. A row's tokens are in the four lanes with the same g.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/portable/ptx/ldmatrix.cuh"
#include "kernels/cuda/score/portable/ptx/mma.cuh"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm80 {

// Multiplies on the tensor cores. With kSeveralChains, the product of two rows may be summed in several chains of
// columns. A second set of sums then holds the sums of the finished chains.
template <ScalarType kType, int kRows, int kTokens, int kTokenPitch, bool kSeveralChains>
class WarpTile {
 public:
  static constexpr int kRowSlots = kRows / 8;
  static constexpr int kTokenSlots = kTokens / 4;
  static_assert(kRows % 16 == 0 && kTokens % 16 == 0);
  static_assert(!kSeveralChains || kType != ScalarType::kI8);

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int m = 0; m < kRows / 16; ++m) {
#pragma unroll
      for (int n = 0; n < kTokens / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_[m][n][i] = 0;
      }
    }
  }

  // Ends a chain that is not the last one of its rows: saves its sums, and starts the next chain.
  __device__ __forceinline__ void EndChain(bool first) {
    if constexpr (kSeveralChains) {
#pragma unroll
      for (int m = 0; m < kRows / 16; ++m) {
#pragma unroll
        for (int n = 0; n < kTokens / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            totals_[m][n][i] = first ? sums_[m][n][i] : __fadd_rn(totals_[m][n][i], sums_[m][n][i]);
          }
        }
      }
      Clear();
    }
  }

  // Ends the last of several chains. The sums are then those of the whole rows.
  __device__ __forceinline__ void JoinChains() {
    if constexpr (kSeveralChains) {
#pragma unroll
      for (int m = 0; m < kRows / 16; ++m) {
#pragma unroll
        for (int n = 0; n < kTokens / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sums_[m][n][i] = __fadd_rn(totals_[m][n][i], sums_[m][n][i]);
        }
      }
    }
  }

  // Returns the offset that a lane adds to the address of the warp's first row to get the argument of Step. Lane l of
  // ldmatrix reads row l % 16 from column 8 (l / 16) on.
  static __device__ __forceinline__ uint32_t RowLaneOffset(int lane, int pitch) {
    return (lane % 16) * pitch + (lane / 16) * 16;
  }
  // Returns the offset that a lane adds to the address of the warp's first token to get the argument of Step. Lanes 0
  // to 15 read two matrices of tokens 0 .. 7, and lanes 16 to 31 read two matrices of tokens 8 .. 15.
  static __device__ __forceinline__ uint32_t TokenLaneOffset(int lane) {
    return ((lane / 16) * 8 + lane % 8) * kTokenPitch + (lane / 8 % 2) * 16;
  }

  // Adds the products of one step. `rows` and `tokens` are addresses in shared memory that include the lane's offset.
  __device__ __forceinline__ void Step(uint32_t rows, int row_pitch, uint32_t tokens) {
    uint32_t a[kRows / 16][4];
#pragma unroll
    for (int m = 0; m < kRows / 16; ++m) LoadMatrices(a[m], rows + m * 16 * row_pitch);
#pragma unroll
    for (int n = 0; n < kTokens / 8; n += 2) {
      uint32_t b[4];
      LoadMatrices(b, tokens + n * 8 * kTokenPitch);
#pragma unroll
      for (int m = 0; m < kRows / 16; ++m) {
        MultiplyAdd<kType>(sums_[m][n], a[m], b[0], b[1]);
        MultiplyAdd<kType>(sums_[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }

  __device__ __forceinline__ Sum<kType> Value(int r, int c) const { return sums_[r / 2][c / 2][(r % 2) * 2 + c % 2]; }
  static __device__ __forceinline__ int TokenOf(int lane, int c) { return (c / 2) * 8 + (lane % 4) * 2 + c % 2; }

 private:
  Sum<kType> sums_[kRows / 16][kTokens / 8][4];
  float totals_[kSeveralChains ? kRows / 16 : 1][kSeveralChains ? kTokens / 8 : 1][4];
};

// FP32 storage: plain fused multiply-adds, no TF32.
template <int kRows, int kTokens, int kTokenPitch, bool kSeveralChains>
class WarpTile<ScalarType::kF32, kRows, kTokens, kTokenPitch, kSeveralChains> {
 public:
  static constexpr int kRowSlots = kRows / 8;
  static constexpr int kTokenSlots = kTokens / 4;

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int r = 0; r < kRowSlots; ++r) {
#pragma unroll
      for (int c = 0; c < kTokenSlots; ++c) sums_[r][c] = 0.0f;
    }
  }

  __device__ __forceinline__ void EndChain(bool first) {
    if constexpr (kSeveralChains) {
#pragma unroll
      for (int r = 0; r < kRowSlots; ++r) {
#pragma unroll
        for (int c = 0; c < kTokenSlots; ++c) {
          totals_[r][c] = first ? sums_[r][c] : __fadd_rn(totals_[r][c], sums_[r][c]);
        }
      }
      Clear();
    }
  }

  __device__ __forceinline__ void JoinChains() {
    if constexpr (kSeveralChains) {
#pragma unroll
      for (int r = 0; r < kRowSlots; ++r) {
#pragma unroll
        for (int c = 0; c < kTokenSlots; ++c) sums_[r][c] = __fadd_rn(totals_[r][c], sums_[r][c]);
      }
    }
  }

  static __device__ __forceinline__ uint32_t RowLaneOffset(int lane, int pitch) { return (lane / 4) * pitch; }
  static __device__ __forceinline__ uint32_t TokenLaneOffset(int lane) { return (lane % 4) * kTokenPitch; }

  __device__ __forceinline__ void Step(uint32_t rows, int row_pitch, uint32_t tokens) {
#pragma unroll
    for (int half = 0; half < kStepBytes; half += 16) {
      float4 a[kRowSlots], b[kTokenSlots];
#pragma unroll
      for (int r = 0; r < kRowSlots; ++r) a[r] = Load(rows + r * 8 * row_pitch + half);
#pragma unroll
      for (int c = 0; c < kTokenSlots; ++c) b[c] = Load(tokens + c * 4 * kTokenPitch + half);
#pragma unroll
      for (int r = 0; r < kRowSlots; ++r) {
#pragma unroll
        for (int c = 0; c < kTokenSlots; ++c) {
          float sum = sums_[r][c];
          sum = __fmaf_rn(a[r].x, b[c].x, sum);
          sum = __fmaf_rn(a[r].y, b[c].y, sum);
          sum = __fmaf_rn(a[r].z, b[c].z, sum);
          sum = __fmaf_rn(a[r].w, b[c].w, sum);
          sums_[r][c] = sum;
        }
      }
    }
  }

  __device__ __forceinline__ float Value(int r, int c) const { return sums_[r][c]; }
  static __device__ __forceinline__ int TokenOf(int lane, int c) { return c * 4 + lane % 4; }

 private:
  static __device__ __forceinline__ float4 Load(uint32_t shared) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(shared)
                 : "memory");
    return v;
  }

  float sums_[kRowSlots][kTokenSlots];
  float totals_[kSeveralChains ? kRowSlots : 1][kSeveralChains ? kTokenSlots : 1];
};

}  // namespace maxsim::cuda::sm80
