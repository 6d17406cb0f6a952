// wgmma (sm_90a) with both operands in shared memory, K-major with the 128-byte swizzle: a warpgroup's
// sums[64 x N] (+)= a[64 x 16] * b[16 x N], 16-bit operands, FP32 sums. What wgmma.cuh says of groups and waits holds.
#pragma once

#include <cstdint>

#include "kernels/cuda/sm90/ptx/wgmma.cuh"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Registers of the first n / 2 sums: their names in the instruction's text, and what they are bound to.
#define MAXSIM_TEXT16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MAXSIM_TEXT32 MAXSIM_TEXT16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MAXSIM_TEXT48 MAXSIM_TEXT32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MAXSIM_TEXT64 MAXSIM_TEXT48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MAXSIM_TEXT80 MAXSIM_TEXT64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MAXSIM_TEXT96 MAXSIM_TEXT80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MAXSIM_TEXT112 MAXSIM_TEXT96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MAXSIM_TEXT128 MAXSIM_TEXT112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MAXSIM_TEXT144 MAXSIM_TEXT128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define MAXSIM_TEXT160 MAXSIM_TEXT144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define MAXSIM_TEXT176 MAXSIM_TEXT160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define MAXSIM_TEXT192 MAXSIM_TEXT176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MAXSIM_EIGHT(g)                                                                                          \
  "+f"(sums[8 * g]), "+f"(sums[8 * g + 1]), "+f"(sums[8 * g + 2]), "+f"(sums[8 * g + 3]), "+f"(sums[8 * g + 4]), \
      "+f"(sums[8 * g + 5]), "+f"(sums[8 * g + 6]), "+f"(sums[8 * g + 7])
#define MAXSIM_SUMS16 MAXSIM_EIGHT(0)
#define MAXSIM_SUMS32 MAXSIM_SUMS16, MAXSIM_EIGHT(1)
#define MAXSIM_SUMS48 MAXSIM_SUMS32, MAXSIM_EIGHT(2)
#define MAXSIM_SUMS64 MAXSIM_SUMS48, MAXSIM_EIGHT(3)
#define MAXSIM_SUMS80 MAXSIM_SUMS64, MAXSIM_EIGHT(4)
#define MAXSIM_SUMS96 MAXSIM_SUMS80, MAXSIM_EIGHT(5)
#define MAXSIM_SUMS112 MAXSIM_SUMS96, MAXSIM_EIGHT(6)
#define MAXSIM_SUMS128 MAXSIM_SUMS112, MAXSIM_EIGHT(7)
#define MAXSIM_SUMS144 MAXSIM_SUMS128, MAXSIM_EIGHT(8)
#define MAXSIM_SUMS160 MAXSIM_SUMS144, MAXSIM_EIGHT(9)
#define MAXSIM_SUMS176 MAXSIM_SUMS160, MAXSIM_EIGHT(10)
#define MAXSIM_SUMS192 MAXSIM_SUMS176, MAXSIM_EIGHT(11)

// One instruction; i, j and k are the operands behind the sums: the descriptions of a and b, and whether to add.
#define MAXSIM_WGMMA_SHARED(n, type, i, j, k)                                                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #k                                         \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" MAXSIM_TEXT##n \
               "}, %" #i ", %" #j ", add, 1, 1, 0, 0;\n}\n"                                        \
               : MAXSIM_SUMS##n                                                                    \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define MAXSIM_WGMMA_SHARED_OF(n, i, j, k)   \
  if constexpr (N == n && kHalf) {           \
    MAXSIM_WGMMA_SHARED(n, "f16", i, j, k);  \
  } else if constexpr (N == n) {             \
    MAXSIM_WGMMA_SHARED(n, "bf16", i, j, k); \
  }

// sums (+)= a * b for the first N columns; kSums >= N / 2. `a` and `b` are of DescribeOperand.
template <ScalarType kType, int N, int kSums>
__device__ __forceinline__ void MultiplyAddShared(float (&sums)[kSums], uint64_t a, uint64_t b, bool add) {
  static_assert(kType == ScalarType::kF16 || kType == ScalarType::kBF16);
  static_assert(N % 16 == 0 && N >= 16 && N <= 192 && kSums >= N / 2);
  constexpr bool kHalf = kType == ScalarType::kF16;
  MAXSIM_WGMMA_SHARED_OF(16, 8, 9, 10)
  MAXSIM_WGMMA_SHARED_OF(32, 16, 17, 18)
  MAXSIM_WGMMA_SHARED_OF(48, 24, 25, 26)
  MAXSIM_WGMMA_SHARED_OF(64, 32, 33, 34)
  MAXSIM_WGMMA_SHARED_OF(80, 40, 41, 42)
  MAXSIM_WGMMA_SHARED_OF(96, 48, 49, 50)
  MAXSIM_WGMMA_SHARED_OF(112, 56, 57, 58)
  MAXSIM_WGMMA_SHARED_OF(128, 64, 65, 66)
  MAXSIM_WGMMA_SHARED_OF(144, 72, 73, 74)
  MAXSIM_WGMMA_SHARED_OF(160, 80, 81, 82)
  MAXSIM_WGMMA_SHARED_OF(176, 88, 89, 90)
  MAXSIM_WGMMA_SHARED_OF(192, 96, 97, 98)
}

#undef MAXSIM_WGMMA_SHARED_OF
#undef MAXSIM_WGMMA_SHARED
#undef MAXSIM_EIGHT
#undef MAXSIM_TEXT16
#undef MAXSIM_SUMS16
#undef MAXSIM_TEXT32
#undef MAXSIM_SUMS32
#undef MAXSIM_TEXT48
#undef MAXSIM_SUMS48
#undef MAXSIM_TEXT64
#undef MAXSIM_SUMS64
#undef MAXSIM_TEXT80
#undef MAXSIM_SUMS80
#undef MAXSIM_TEXT96
#undef MAXSIM_SUMS96
#undef MAXSIM_TEXT112
#undef MAXSIM_SUMS112
#undef MAXSIM_TEXT128
#undef MAXSIM_SUMS128
#undef MAXSIM_TEXT144
#undef MAXSIM_SUMS144
#undef MAXSIM_TEXT160
#undef MAXSIM_SUMS160
#undef MAXSIM_TEXT176
#undef MAXSIM_SUMS176
#undef MAXSIM_TEXT192
#undef MAXSIM_SUMS192

}  // namespace maxsim::cuda::sm90
