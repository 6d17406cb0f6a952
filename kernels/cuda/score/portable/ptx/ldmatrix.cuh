// ldmatrix: four 8x8 matrices of 16-bit elements from shared memory into the fragments that mma.sync takes (sm_75).
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm80 {

// Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes, 16-byte aligned). Afterwards lane 4g + t holds the
// elements 2t and 2t + 1 of row g of matrix i in `fragment[i]`.
__device__ __forceinline__ void LoadMatrices(uint32_t (&fragment)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}

// LoadMatrices with every matrix transposed: lane 4g + t holds the elements g of rows 2t and 2t + 1.
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&fragment)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}

}  // namespace maxsim::cuda::sm80
