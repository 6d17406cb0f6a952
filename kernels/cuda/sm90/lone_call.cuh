// What a stream kernel does for a lone call (kernels/cuda/lone_call.h) beside scoring.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/completion.cuh"
#include "kernels/cuda/lone_call.h"
#include "kernels/cuda/topk/block_select.cuh"

namespace maxsim::cuda::sm90 {

// Of `threads` threads that meet at a named barrier.
template <int kBarrier>
__device__ __forceinline__ void Meet(int threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
}

// Brings the input over, or waits until it is there. Nobody waits for a block that may not be running: it is the first
// one to come here that brings it. Called by the block's first `threads` threads, which meet at kBarrier. `word` is
// theirs, in shared memory.
template <int kBarrier>
__device__ __forceinline__ void BringInput(const LoneCall& call, uint32_t& word, int threads) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) word = atomicAdd(&call.state->begun, 1u);
  Meet<kBarrier>(threads);
  if (word == 0) {
    if (thread == 0) NoteTime(&call.times->input_begin);
    const int count = static_cast<int>(call.input_bytes / sizeof(uint4));
#pragma unroll 2
    for (int i = thread; i < count; i += threads) call.input[i] = call.host_input[i];
    Meet<kBarrier>(threads);
    if (thread != 0) return;
    __threadfence();
    atomicExch(&call.state->input_there, 1u);
    NoteTime(&call.times->input_end);
  } else {
    if (thread == 0) {
      uint32_t there = 0;
      while (there == 0) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(&call.state->input_there) : "memory");
      }
    }
    Meet<kBarrier>(threads);
  }
}

struct LoneCallSpace {
  BlockSelectSpace select;
  uint32_t is_last;
};

// Selects, if this is the last block to get here. Called by all threads once all has been scored that is the block's,
// with nothing of `space` in use.
__device__ __forceinline__ void SelectAtEnd(const LoneCall& call, const float* scores, LoneCallSpace& space) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    space.is_last = atomicAdd(&call.state->ended, 1u) + 1 == gridDim.x ? 1 : 0;
    __threadfence();
  }
  __syncthreads();
  if (space.is_last == 0) return;
  if (threadIdx.x == 0) NoteTime(&call.times->scores_end);
  SelectInBlock(scores, call.num_candidates, static_cast<int>(call.k), call.results, space.select);
  if (threadIdx.x == 0) {
    *call.state = LoneCallState{};
    NoteTime(&call.times->results_end);
  }
}

}  // namespace maxsim::cuda::sm90
