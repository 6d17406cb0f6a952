// A warp's inner products of 32 query rows with a tile of document tokens that its lanes have decoded into registers.
//
// With g = lane / 4 and t = lane % 4, a lane decodes columns 8 t .. 8 t + 7 of each step for the tokens 8 j + g. An
// inner product does not depend on the order of its columns. So the tensor cores take these eight columns, in both
// operands, as the columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of two instructions, and the values that a lane has
// decoded are its part of the operand. FP32 products are fused multiply-adds over the lane's own columns; the sums of
// the four lanes are added at the tile's end.
//
// Both variants call visit(token, values) for each token that the lane has results of, in ascending order. `values` are
// the results of the lane's rows by slot. A row has the same slot in all lanes that have results of it.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/portable/ptx/mma.cuh"
#include "kernels/cuda/score/residual/columns.cuh"

namespace maxsim::cuda {

// The variant for kF16 and kBF16. Row 8 s + g has slot s.
template <ScalarType kType>
class CodedProducts {
 public:
  static constexpr int kGroups = 4;  // of 8 tokens
  static constexpr int kTokens = 8 * kGroups;
  static constexpr int kSlots = 4;
  static constexpr int kJoinFirst = 1;  // lanes with the same rows differ in these bits of their number
  static constexpr int kJoinLast = 2;

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums_[m][j][i] = 0.0f;
      }
    }
  }

  // For each step the caller calls BeginStep, Add for each group of tokens, and EndStep. read(row, words) writes the
  // lane's eight columns of a query row to `words`.
  template <class ReadRow>
  __device__ __forceinline__ void BeginStep(int lane, ReadRow read) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      uint32_t upper[4], lower[4];
      read(16 * m + lane / 4, upper);
      read(16 * m + 8 + lane / 4, lower);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows_[half][m][0] = upper[2 * half];
        rows_[half][m][1] = lower[2 * half];
        rows_[half][m][2] = upper[2 * half + 1];
        rows_[half][m][3] = lower[2 * half + 1];
      }
    }
  }

  // Adds the products with the lane's columns of the tokens 8 group .. 8 group + 7.
  __device__ __forceinline__ void Add(int group, const uint32_t (&values)[4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        sm80::MultiplyAdd<kType>(sums_[m][group], rows_[half][m], values[2 * half], values[2 * half + 1]);
      }
    }
  }

  template <class ReadRow>
  __device__ __forceinline__ void EndStep(ReadRow) {}

  // Calls visit for each token of the lane. factors[j] is the factor of token 8 j + g.
  template <class Visit>
  __device__ __forceinline__ void ForEach(int lane, const float (&factors)[kGroups], Visit visit) const {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 2 * (lane % 4) + i;
        const float factor = __shfl_sync(0xffffffffu, factors[j], 4 * token);
        float values[kSlots];
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          values[slot] = __fmul_rn(sums_[slot / 2][j][slot % 2 * 2 + i], factor);
        }
        visit(8 * j + token, values);
      }
    }
  }

  // Returns the value of row `lane`. `slots` must be combined over the lanes that have the same rows.
  template <class T>
  static __device__ __forceinline__ T OfRow(int lane, const T (&slots)[kSlots]) {
    T result = slots[0];
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const T value = __shfl_sync(0xffffffffu, slots[slot], lane % 8 * 4);
      if (lane / 8 == slot) result = value;
    }
    return result;
  }

 private:
  float sums_[2][kGroups][4];
  uint32_t rows_[2][2][4];
};

// The variant for FP32. Row 8 t + s has slot s.
template <>
class CodedProducts<ScalarType::kF32> {
 public:
  static constexpr int kGroups = 2;
  static constexpr int kTokens = 8 * kGroups;
  static constexpr int kSlots = 8;
  static constexpr int kJoinFirst = 4;
  static constexpr int kJoinLast = 16;

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int row = 0; row < kCodedQueryRows; ++row) {
#pragma unroll
      for (int j = 0; j < kGroups; ++j) sums_[row][j] = 0.0f;
    }
  }

  template <class ReadRow>
  __device__ __forceinline__ void BeginStep(int, ReadRow) {}

  __device__ __forceinline__ void Add(int group, const uint32_t (&values)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) values_[group][i] = __uint_as_float(values[i]);
  }

  // Reads each query row once, and multiplies it by all groups of eight document tokens.
  template <class ReadRow>
  __device__ __forceinline__ void EndStep(ReadRow read) {
#pragma unroll
    for (int row = 0; row < kCodedQueryRows; ++row) {
      uint32_t columns[8];
      read(row, columns);
#pragma unroll
      for (int j = 0; j < kGroups; ++j) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          sums_[row][j] = __fmaf_rn(__uint_as_float(columns[i]), values_[j][i], sums_[row][j]);
        }
      }
    }
  }

  template <class Visit>
  __device__ __forceinline__ void ForEach(int lane, const float (&factors)[kGroups], Visit visit) const {
    const bool upper = (lane & 2) != 0;
    const bool odd = (lane & 1) != 0;
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      float values[kSlots];
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        // Each exchange leaves a lane with half of its rows, so that lane t ends with the rows 8 t .. 8 t + 7.
        float parts[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float low = sums_[8 * half + slot][j];
          const float high = sums_[16 + 8 * half + slot][j];
          parts[half] = __fadd_rn(upper ? high : low, __shfl_xor_sync(0xffffffffu, upper ? low : high, 2));
        }
        const float sum =
            __fadd_rn(odd ? parts[1] : parts[0], __shfl_xor_sync(0xffffffffu, odd ? parts[0] : parts[1], 1));
        values[slot] = __fmul_rn(sum, factors[j]);
      }
      visit(8 * j + lane / 4, values);
    }
  }

  template <class T>
  static __device__ __forceinline__ T OfRow(int lane, const T (&slots)[kSlots]) {
    T result = slots[0];
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const T value = __shfl_sync(0xffffffffu, slots[slot], lane / 8);
      if (lane % 8 == slot) result = value;
    }
    return result;
  }

 private:
  float sums_[kCodedQueryRows][kGroups];
  float values_[kGroups][8];
};

}  // namespace maxsim::cuda
