// mma.sync (sm_80). m16n8k16 computes sums[16 x 8] += a[16 x 16] * b[16 x 8] with 16-bit operands and FP32 sums.
// m16n8k32 does the same with k = 32, INT8 operands and int32 sums. Both take 32 bytes of each row, and distribute them
// over the lanes in the same way.
#pragma once

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm80 {

template <ScalarType kType>
__device__ __forceinline__ void MultiplyAdd(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  static_assert(kType == ScalarType::kF16 || kType == ScalarType::kBF16);
  if constexpr (kType == ScalarType::kF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

template <ScalarType kType>
__device__ __forceinline__ void MultiplyAdd(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  static_assert(kType == ScalarType::kI8);
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace maxsim::cuda::sm80
