// The device's side of completion.h.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/call/completion.h"

namespace maxsim::cuda {

// A store that nobody sees a part of, to the host's memory or the device's: volatile is relaxed, for the whole system.
__device__ __forceinline__ void StoreWhole(void* place, uint64_t bits) {
  *static_cast<volatile uint64_t*>(place) = bits;
}

__device__ __forceinline__ void StoreResult(DeviceScored* place, float score, uint32_t position) {
  StoreWhole(place, static_cast<uint64_t>(position) << 32 | __float_as_uint(score));
}

__device__ __forceinline__ uint64_t GlobalTime() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

__device__ __forceinline__ void NoteTime(uint64_t* place) { StoreWhole(place, GlobalTime()); }

// Notes the time, by the grid's first thread alone, in a call's `times` that may be null.
__device__ __forceinline__ void NoteTimeOnce(CallTimes* times, uint64_t CallTimes::*which) {
  if (times != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) NoteTime(&(times->*which));
}

}  // namespace maxsim::cuda
