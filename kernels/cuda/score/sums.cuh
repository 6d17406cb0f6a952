// The type in which products are summed, by storage type: FP32, or int32 for quantised documents, whose sums are exact.
// Also the maxima of such sums.
#pragma once

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::cuda {

template <ScalarType kType>
struct SumOfProducts {
  using Type = float;
};
template <>
struct SumOfProducts<ScalarType::kI8> {
  using Type = int32_t;
};
template <ScalarType kType>
using Sum = typename SumOfProducts<kType>::Type;

// Returns a value below every sum: the maximum over no sums.
template <class T>
__device__ __forceinline__ T LowestSum();
template <>
__device__ __forceinline__ float LowestSum<float>() {
  return __int_as_float(0xff800000);  // -infinity
}
template <>
__device__ __forceinline__ int32_t LowestSum<int32_t>() {
  return INT32_MIN;
}

__device__ __forceinline__ float Larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ int32_t Larger(int32_t a, int32_t b) { return max(a, b); }

// Return the FP32 value of a maximum, which is then multiplied by its weight. An int32 is rounded.
__device__ __forceinline__ float ValueOf(float maximum) { return maximum; }
__device__ __forceinline__ float ValueOf(int32_t maximum) { return __int2float_rn(maximum); }

// Convert sums to integers that have the same order, and back.
__device__ __forceinline__ int32_t Ordered(float value) {
  const int32_t bits = __float_as_int(value);
  return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ __forceinline__ int32_t Ordered(int32_t value) { return value; }
template <class T>
__device__ __forceinline__ T FromOrdered(int32_t bits);
template <>
__device__ __forceinline__ float FromOrdered<float>(int32_t bits) {
  return __int_as_float(bits ^ (bits >> 31 & 0x7fffffff));
}
template <>
__device__ __forceinline__ int32_t FromOrdered<int32_t>(int32_t bits) {
  return bits;
}

// Converts sums to unsigned integers of the same order, and back. 0 is below every sum.
template <class T>
__device__ __forceinline__ uint32_t Rising(T value) {
  return static_cast<uint32_t>(Ordered(value)) ^ 0x80000000u;
}
template <class T>
__device__ __forceinline__ T FromRising(uint32_t bits) {
  return FromOrdered<T>(static_cast<int32_t>(bits ^ 0x80000000u));
}

// Ordered(LowestSum<T>()).
template <class T>
inline constexpr uint32_t kLowestOrdered = 0x807fffff;
template <>
inline constexpr uint32_t kLowestOrdered<int32_t> = 0x80000000;

}  // namespace maxsim::cuda
