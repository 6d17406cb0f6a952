// Copies of boxes of an array into shared memory by the copy engine (sm_90).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace maxsim::cuda::sm90 {

// Starts a copy of the map's box at (column, row) to `shared`, and counts its bytes at `barrier` as they arrive. The
// part of the box that lies outside of the array becomes zeros. One thread calls it.
__device__ __forceinline__ void CopyBox(uint32_t shared, const CUtensorMap& map, int32_t column, int32_t row,
                                        uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}

// Starts the copy of a box of a four-dimensional array.
__device__ __forceinline__ void CopyBox(uint32_t shared, const CUtensorMap& map, int32_t column, int32_t second,
                                        int32_t third, int32_t fourth, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared),
      "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third), "r"(fourth)
      : "memory");
}

__device__ __forceinline__ void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace maxsim::cuda::sm90
