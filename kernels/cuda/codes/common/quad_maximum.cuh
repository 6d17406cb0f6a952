// Finds the largest value of each row in the four lanes of a quad.
#pragma once

#include <cuda_runtime.h>

namespace maxsim::cuda {

inline constexpr unsigned kAllLanes = ~0u;

template <class T>
__device__ __forceinline__ T LargerOf(T a, T b) {
  return a > b ? a : b;
}

// The lanes of a quad, which differ in the lowest two bits of `lane`, have a value for each of the same four rows.
// Returns the largest value of row 2 * (lane & 1) + (lane >> 1 & 1). All lanes of the warp call this together.
template <class T>
__device__ __forceinline__ T QuadMaximum(const T (&rows)[4], int lane) {
  const bool odd = lane & 1, upper = lane & 2;
  const T kept0 = LargerOf(odd ? rows[2] : rows[0], __shfl_xor_sync(kAllLanes, odd ? rows[0] : rows[2], 1));
  const T kept1 = LargerOf(odd ? rows[3] : rows[1], __shfl_xor_sync(kAllLanes, odd ? rows[1] : rows[3], 1));
  return LargerOf(upper ? kept1 : kept0, __shfl_xor_sync(kAllLanes, upper ? kept0 : kept1, 2));
}

// The lanes of a quad have a value for each of the same two rows. Returns the largest value of row (lane & 1). All
// lanes of the warp call this together.
template <class T>
__device__ __forceinline__ T PairMaximum(T row0, T row1, int lane) {
  const bool odd = lane & 1;
  const T kept = LargerOf(odd ? row1 : row0, __shfl_xor_sync(kAllLanes, odd ? row0 : row1, 1));
  return LargerOf(kept, __shfl_xor_sync(kAllLanes, kept, 2));
}

}  // namespace maxsim::cuda
