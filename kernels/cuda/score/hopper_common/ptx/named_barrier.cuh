// The thread block's numbered barriers (bar). Number 0 is the barrier of __syncthreads.
#pragma once

namespace maxsim::cuda::sm90 {

// Waits until kThreads threads, whole warps, have come to the barrier, by this or by ArriveAtNamed.
template <int kThreads>
__device__ __forceinline__ void WaitAtNamed(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// Comes to the barrier without waiting.
template <int kThreads>
__device__ __forceinline__ void ArriveAtNamed(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

}  // namespace maxsim::cuda::sm90
