// Atomic operations on device memory, through which thread blocks exchange results.
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm90 {

__device__ __forceinline__ void MaxGlobal(uint32_t* address, uint32_t value) {
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// Adds `value` and returns the value that was there before.
__device__ __forceinline__ uint32_t AddGlobalAcquireRelease(uint32_t* address, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(address), "r"(value) : "memory");
  return before;
}

// Loads the value, but not from the L1 cache, which does not see the writes of other multiprocessors.
__device__ __forceinline__ uint32_t LoadGlobalRelaxed(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

}  // namespace maxsim::cuda::sm90
