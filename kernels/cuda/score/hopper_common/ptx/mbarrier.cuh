// Transaction barriers in shared memory (sm_90): the signals of a ring.
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm90 {

__device__ __forceinline__ void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine. The caller must then synchronise the thread block.
__device__ __forceinline__ void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Makes the thread's writes to shared memory visible to the copy engine and to wgmma, which reads operands there.
__device__ __forceinline__ void FenceForAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Waits until the phase of this parity has completed. A fresh barrier counts as one that completed parity 1.
__device__ __forceinline__ void WaitBarrier(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra wait;\n"
      "ready:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Defines `done`: whether the phase of this parity has completed, according to the instruction `wait`.
#define MAXSIM_ASK_BARRIER(wait)                  \
  uint32_t done;                                  \
  asm volatile(                                   \
      "{\n"                                       \
      ".reg .pred done;\n"                        \
      "mbarrier." wait                            \
      ".parity.shared::cta.b64 done, [%1], %2;\n" \
      "selp.u32 %0, 1, 0, done;\n"                \
      "}\n"                                       \
      : "=r"(done)                                \
      : "r"(barrier), "r"(parity)                 \
      : "memory")

// Returns, without waiting, whether the phase of this parity has completed.
__device__ __forceinline__ bool TestBarrier(uint32_t barrier, uint32_t parity) {
  MAXSIM_ASK_BARRIER("test_wait");
  return done != 0;
}

// Returns whether the phase of this parity completes within a time that the hardware sets.
__device__ __forceinline__ bool TryBarrier(uint32_t barrier, uint32_t parity) {
  MAXSIM_ASK_BARRIER("try_wait");
  return done != 0;
}

#undef MAXSIM_ASK_BARRIER

__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and makes the phase wait for `bytes` more bytes from the copy engine.
__device__ __forceinline__ void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

}  // namespace maxsim::cuda::sm90
