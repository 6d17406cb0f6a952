// The device's side of completion.h.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/completion.h"

namespace maxsim::cuda {

__device__ __forceinline__ uint64_t GlobalNanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

// To be called by all threads of every block of the kernel, at its very start.
__device__ __forceinline__ void NoteStart(const Completion& completion) {
  if (completion.record == nullptr || blockIdx.x != 0 || blockIdx.y != 0 || threadIdx.x != 0) return;
  completion.state->scores_end = GlobalNanoseconds();
}

// To be called once by all threads of every block, after all that the block writes.
__device__ __forceinline__ void Complete(const Completion& completion) {
  if (completion.record == nullptr) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  // Each block's results reach the host's memory before the block counts, and all of them before the number does.
  __threadfence_system();
  if (atomicAdd(&completion.state->num_blocks, 1u) + 1 != gridDim.x * gridDim.y) return;
  __threadfence();
  completion.state->num_blocks = 0;
  completion.record->scores_end = __ldcg(&completion.state->scores_end);
  completion.record->results_end = GlobalNanoseconds();
  __threadfence_system();
  *static_cast<volatile uint32_t*>(&completion.record->done) = completion.call;
}

}  // namespace maxsim::cuda
