// Writes results and times from kernels to pinned memory (completion.h).
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/select/completion.h"

namespace maxsim::cuda {

// Stores eight bytes in memory of the host or the device, so that a reader sees either all of them or none. A volatile
// store is a relaxed store for the whole system.
__device__ __forceinline__ void StoreWhole(void* to, uint64_t bits) { *static_cast<volatile uint64_t*>(to) = bits; }

// Stores a result in one store.
__device__ __forceinline__ void StoreResult(DeviceScored* to, float score, uint32_t position) {
  StoreWhole(to, static_cast<uint64_t>(position) << 32 | __float_as_uint(score));
}

// Returns the device's clock in nanoseconds.
__device__ __forceinline__ uint64_t GlobalTime() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

// Stores the time.
__device__ __forceinline__ void NoteTime(uint64_t* to) { StoreWhole(to, GlobalTime()); }

// Stores the time in a member of `times`, if this thread is the first of the grid and `times` is not null.
__device__ __forceinline__ void NoteTimeOnce(CallTimes* times, uint64_t CallTimes::*which) {
  if (times != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) NoteTime(&(times->*which));
}

}  // namespace maxsim::cuda
