// The steps of a single-launch call (kernels/cuda/score/hopper_stream/single_launch_call.h) that a stream kernel takes
// in addition to scoring.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/global.cuh"
#include "kernels/cuda/score/hopper_stream/single_launch_call.h"
#include "kernels/cuda/select/block_select.cuh"
#include "kernels/cuda/select/completion.cuh"

namespace maxsim::cuda::sm90 {

// Waits at a named barrier until `threads` threads have come to it.
template <int kBarrier>
__device__ __forceinline__ void NamedBarrierSync(int threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
}

// Maximum number of pieces of 16 bytes of the input that a thread copies to the device. A thread reads all its pieces
// together, because a read of the host's memory takes 2 to 3 us.
inline constexpr int kInputVectors = 2;

// Returns whether the input is in device memory.
__device__ __forceinline__ bool InputIsThere(const SingleLaunchCall& call) {
  uint32_t there = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(&call.state->input_there) : "memory");
  return there != 0;
}

// Copies the call's input to device memory. The first thread block of the grid copies it, and the others wait until
// it is there. The first thread block may not be running, so after some time any other block copies the same input
// itself. The block's first `threads` threads call this function and synchronise at kBarrier. `input_is_there` lies
// in the thread block's shared memory.
template <int kBarrier>
__device__ __forceinline__ void BringInput(const SingleLaunchCall& call, uint32_t& input_is_there, int threads) {
  const int thread = static_cast<int>(threadIdx.x);
  if (blockIdx.x != 0) {
    if (thread == 0) {
      int polls = 0;
      bool there = InputIsThere(call);
      for (; !there && polls < call.patience; ++polls) there = InputIsThere(call);
      input_is_there = there ? 1 : 0;
    }
    NamedBarrierSync<kBarrier>(threads);
    if (input_is_there != 0) return;
  }
  const uint64_t begin = GlobalTime();
  const int count = static_cast<int>(call.input_bytes / sizeof(uint4));
  uint4 vectors[kInputVectors];
#pragma unroll
  for (int i = 0; i < kInputVectors; ++i) {
    if (thread + i * threads < count) vectors[i] = call.host_input[thread + i * threads];
  }
#pragma unroll
  for (int i = 0; i < kInputVectors; ++i) {
    if (thread + i * threads < count) call.input[thread + i * threads] = vectors[i];
  }
  NamedBarrierSync<kBarrier>(threads);
  if (thread != 0) return;
  // The times are stored only after this release. Stores of times go to the host's memory, and a release after them
  // would wait until they have arrived.
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(&call.state->input_there) : "memory");
  StoreWhole(&call.times->input_begin, begin);
  NoteTime(&call.times->input_end);
}

struct SingleLaunchSpace {
  BlockSelectSpace select;
  uint32_t is_last;
};

// Selects the results if this thread block is the last one to call it. A thread block calls it when it has scored all
// of its candidates: its first kThreads threads call it and synchronise at kBarrier. No part of `space` may be in
// use.
template <int kThreads, int kBarrier>
__device__ __forceinline__ void SelectAtEnd(const SingleLaunchCall& call, const float* scores,
                                            SingleLaunchSpace& space) {
  const auto meet = [] { NamedBarrierSync<kBarrier>(kThreads); };
  meet();
  if (threadIdx.x == 0) {
    space.is_last = AddGlobalAcquireRelease(&call.state->ended, 1) + 1 == gridDim.x ? 1 : 0;
  }
  meet();
  if (space.is_last == 0) return;
  if (threadIdx.x == 0) NoteTime(&call.times->scores_end);
  SelectInBlock<kThreads>(scores, call.num_candidates, call.k, call.results, space.select, meet);
  if (threadIdx.x == 0) {
    *call.state = SingleLaunchState{};
    NoteTime(&call.times->results_end);
  }
}

}  // namespace maxsim::cuda::sm90
