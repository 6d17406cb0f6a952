// Copies of contiguous bytes into shared memory by the copy engine (sm_90).
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm90 {

// Starts a copy of `bytes` bytes, and counts them at `barrier` as they arrive. `bytes` and both addresses must be
// multiples of 16. One thread calls it.
__device__ __forceinline__ void CopyBulk(uint32_t shared, const void* global, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier)
               : "memory");
}

// Starts a copy of data that is not needed again soon: the L2 cache evicts it first.
__device__ __forceinline__ void CopyBulkOnce(uint32_t shared, const void* global, uint32_t bytes, uint32_t barrier) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared),
      "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

}  // namespace maxsim::cuda::sm90
