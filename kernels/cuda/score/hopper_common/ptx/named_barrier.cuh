// The numbered barriers of a thread block (bar). __syncthreads uses number 0.
#pragma once

namespace maxsim::cuda::sm90 {

// Waits until kThreads threads (whole warps) have called WaitAtNamed or ArriveAtNamed for the barrier.
template <int kThreads>
__device__ __forceinline__ void WaitAtNamed(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// Arrives at the barrier without waiting.
template <int kThreads>
__device__ __forceinline__ void ArriveAtNamed(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace maxsim::cuda::sm90
