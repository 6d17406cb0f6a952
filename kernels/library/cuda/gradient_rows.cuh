// Reads and writes rows of vectors and gradients in the backward pass. A warp has kBackwardColumns columns of a row,
// four per lane.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/library/cuda/backward.h"

namespace maxsim::library {

__device__ __forceinline__ float Widen(float value) { return value; }
__device__ __forceinline__ float Widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float Widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__device__ __forceinline__ T Narrow(float value);
template <>
__device__ __forceinline__ float Narrow<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half Narrow<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 Narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Four columns of a row.
struct Columns {
  float values[4] = {0, 0, 0, 0};

  // Adds the other columns, each times the factor.
  __device__ __forceinline__ void Add(float factor, const Columns& other) {
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = __fmaf_rn(factor, other.values[i], values[i]);
  }
};

// The bits of four elements.
template <class T>
struct alignas(4 * sizeof(T)) FourElements {
  T values[4];
};

// Reads columns `column` .. `column` + 3 of a row; columns from `dim` on are zero. kAligned is a template parameter, so
// that consecutive loads do not wait for one another.
template <class T, bool kAligned>
__device__ __forceinline__ FourElements<T> ReadElements(const void* rows, int64_t row, int32_t dim, int32_t column) {
  FourElements<T> four = {};
  const T* const source = static_cast<const T*>(rows) + row * dim + column;
  if constexpr (kAligned) {
    if (column < dim) four = *reinterpret_cast<const FourElements<T>*>(source);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < dim) four.values[i] = source[i];
    }
  }
  return four;
}

template <class T>
__device__ __forceinline__ Columns Widen(const FourElements<T>& four) {
  Columns columns;
#pragma unroll
  for (int i = 0; i < 4; ++i) columns.values[i] = Widen(four.values[i]);
  return columns;
}

template <class T>
__device__ __forceinline__ Columns ReadColumns(const void* rows, int64_t row, int32_t dim, int32_t column,
                                               bool aligned) {
  return Widen(aligned ? ReadElements<T, true>(rows, row, dim, column)
                       : ReadElements<T, false>(rows, row, dim, column));
}

// Writes columns `column` .. `column` + 3 of a row, except columns from `dim` on.
template <class T>
__device__ __forceinline__ void WriteColumns(void* rows, int64_t row, int32_t dim, int32_t column, bool aligned,
                                             const Columns& columns) {
  if (column >= dim) return;
  T* const target = static_cast<T*>(rows) + row * dim + column;
  if (aligned) {
    FourElements<T> four;
#pragma unroll
    for (int i = 0; i < 4; ++i) four.values[i] = Narrow<T>(columns.values[i]);
    *reinterpret_cast<FourElements<T>*>(target) = four;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < dim) target[i] = Narrow<T>(columns.values[i]);
    }
  }
}

}  // namespace maxsim::library
