// cp.async: 16-byte copies from global to shared memory that do not use registers and complete in groups (sm_80).
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm80 {

// `shared` is an address in the shared window and, like `global`, a multiple of 16.
__device__ __forceinline__ void CopyAsync16(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(shared), "l"(global) : "memory");
}

// Copies like CopyAsync16 if `present`, and otherwise writes zeros. `global` must be a valid address in either case.
__device__ __forceinline__ void CopyAsync16OrZero(uint32_t shared, const void* global, bool present) {
  const int source_bytes = present ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(source_bytes)
               : "memory");
}

// Makes the copies that this thread has started since the last CommitCopies a group. Without any, makes an empty group.
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most the last kPending of this thread's groups are unfinished.
template <int kPending>
__device__ __forceinline__ void WaitCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

// Waits until at most the last `pending` groups (0 .. 6) are unfinished. The switch is needed because the instruction
// takes only constants.
__device__ __forceinline__ void WaitCopies(int pending) {
  switch (pending) {
    case 0:
      return WaitCopies<0>();
    case 1:
      return WaitCopies<1>();
    case 2:
      return WaitCopies<2>();
    case 3:
      return WaitCopies<3>();
    case 4:
      return WaitCopies<4>();
    case 5:
      return WaitCopies<5>();
    default:
      return WaitCopies<6>();
  }
}

}  // namespace maxsim::cuda::sm80
