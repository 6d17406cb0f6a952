// Computes sums and extremes over a thread block of kSelectThreads threads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/plan/select.h"

namespace maxsim::cuda {

inline constexpr int kSelectWarps = kSelectThreads / 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Shared memory of the functions below. Threads still read it when a function returns, so a barrier of the thread block
// must lie between two calls with the same space.
struct ScanSpace {
  uint32_t first[kSelectWarps];
  uint32_t second[kSelectWarps];
};

// Returns the sum of `value` over the threads before this one. Contains a barrier, so all threads of the block must
// call it.
__device__ __forceinline__ uint32_t SumBefore(uint32_t value, ScanSpace& space) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t inclusive = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, inclusive, distance);
    if (lane >= distance) inclusive += below;
  }
  if (lane == 31) space.first[warp] = inclusive;
  __syncthreads();
  const uint32_t warp_sum = space.first[lane];
  return inclusive - value + __reduce_add_sync(kAllLanes, lane < warp ? warp_sum : 0u);
}

// Returns, to all threads, the smallest `low` and the largest `high` of all threads. Contains a barrier, so all threads
// of the block must call it.
__device__ __forceinline__ uint2 Extremes(uint32_t low, uint32_t high, ScanSpace& space) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  low = __reduce_min_sync(kAllLanes, low);
  high = __reduce_max_sync(kAllLanes, high);
  if (lane == 0) {
    space.first[warp] = low;
    space.second[warp] = high;
  }
  __syncthreads();
  return {__reduce_min_sync(kAllLanes, space.first[lane]), __reduce_max_sync(kAllLanes, space.second[lane])};
}

}  // namespace maxsim::cuda
