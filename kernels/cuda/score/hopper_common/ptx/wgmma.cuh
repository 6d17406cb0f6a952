// wgmma (sm_90a): a warpgroup computes sums[64 x N] (+)= a[64 x 16] * b[16 x N] with 16-bit operands and FP32 sums, or
// sums[64 x N] (+)= a[64 x 32] * b[32 x N] with INT8 operands and int32 sums. `b` is in shared memory, K-major with the
// 128-byte swizzle. `a` is in registers, or in shared memory in the same form as `b`.
//
// Instructions of a group run asynchronously. Their registers must not be touched from FenceOperands until WaitGroups
// has waited for the group. Sums have the same bits as those of mma.sync over the same groups of 16 columns.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/sums.cuh"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Must be called before the first instruction of a group.
__device__ __forceinline__ void FenceOperands() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void CommitGroup() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most the last kPending of the committed groups still run.
template <int kPending>
__device__ __forceinline__ void WaitGroups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving reads of the first N / 2 sums ahead of a wait.
template <int N, int kSums>
__device__ __forceinline__ void Pin(float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int N, int kSums>
__device__ __forceinline__ void Pin(int32_t (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

// Describes a K-major operand in shared memory at `shared` (a multiple of 1,024). Rows have 128 bytes and are swizzled;
// groups of eight rows lie 1,024 bytes apart. The descriptor of the next step (32 bytes further) is 2 larger.
__device__ __forceinline__ uint64_t DescribeOperand(uint32_t shared) {
  constexpr uint64_t kLeadingBytes = uint64_t{1} << 16;         // not used with a swizzle
  constexpr uint64_t kStrideBytes = uint64_t{1024 / 16} << 32;  // between groups of eight rows
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return ((shared & 0x3ffff) >> 4) | kLeadingBytes | kStrideBytes | kSwizzle128;
}

// The first N / 2 operands of an instruction, by number, for its text: its sums.
#define MAXSIM_TEXT32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MAXSIM_TEXT64 MAXSIM_TEXT32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MAXSIM_TEXT96 MAXSIM_TEXT64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MAXSIM_TEXT128 MAXSIM_TEXT96 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MAXSIM_TEXT192                                                                           \
  MAXSIM_TEXT128                                                                                 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

// The sums as operands of an asm statement, in the order of the numbers above. `c` is the constraint "+f" or "+r".
#define MAXSIM_EIGHT(c, g)                                                                                            \
  c(sums[8 * g]), c(sums[8 * g + 1]), c(sums[8 * g + 2]), c(sums[8 * g + 3]), c(sums[8 * g + 4]), c(sums[8 * g + 5]), \
      c(sums[8 * g + 6]), c(sums[8 * g + 7])
#define MAXSIM_SUMS32(c) MAXSIM_EIGHT(c, 0), MAXSIM_EIGHT(c, 1)
#define MAXSIM_SUMS64(c) MAXSIM_SUMS32(c), MAXSIM_EIGHT(c, 2), MAXSIM_EIGHT(c, 3)
#define MAXSIM_SUMS96(c) MAXSIM_SUMS64(c), MAXSIM_EIGHT(c, 4), MAXSIM_EIGHT(c, 5)
#define MAXSIM_SUMS128(c) MAXSIM_SUMS96(c), MAXSIM_EIGHT(c, 6), MAXSIM_EIGHT(c, 7)
#define MAXSIM_SUMS192(c) \
  MAXSIM_SUMS128(c), MAXSIM_EIGHT(c, 8), MAXSIM_EIGHT(c, 9), MAXSIM_EIGHT(c, 10), MAXSIM_EIGHT(c, 11)

// One instruction. `kind` names k and the types; `tail` is the text after the predicate, which only floating-point
// types have: signs, and transposition of operands in shared memory. The operands' numbers follow those of the sums.
#define MAXSIM_WGMMA_ROWS(n, a0, a1, a2, a3, b_at, add_at, kind, tail, c)                                         \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n kind \
               " {" MAXSIM_TEXT##n "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_at ", add" tail ";\n}\n"   \
               : MAXSIM_SUMS##n(c)                                                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))
#define MAXSIM_WGMMA_SHARED(n, a_at, b_at, add_at, kind, tail, c)                                                 \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #add_at ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n kind \
               " {" MAXSIM_TEXT##n "}, %" #a_at ", %" #b_at ", add" tail ";\n}\n"                                 \
               : MAXSIM_SUMS##n(c)                                                                                \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))

// sums (+)= a * b for 128 columns. `a` is a lane's part of the operand.
template <ScalarType kType>
__device__ __forceinline__ void MultiplyAdd(Sum<kType> (&sums)[64], const uint32_t (&a)[4], uint64_t b, bool add) {
  static_assert(kType == ScalarType::kF16 || kType == ScalarType::kBF16 || kType == ScalarType::kI8);
  if constexpr (kType == ScalarType::kF16) {
    MAXSIM_WGMMA_ROWS(128, 64, 65, 66, 67, 68, 69, "k16.f32.f16.f16", ", 1, 1, 0", "+f");
  } else if constexpr (kType == ScalarType::kBF16) {
    MAXSIM_WGMMA_ROWS(128, 64, 65, 66, 67, 68, 69, "k16.f32.bf16.bf16", ", 1, 1, 0", "+f");
  } else {
    MAXSIM_WGMMA_ROWS(128, 64, 65, 66, 67, 68, 69, "k32.s32.s8.s8", "", "+r");
  }
}

// sums += a * b for the first N columns (32, 64 or 96). `a` is a lane's part of the operand. With kFresh, sums = a * b,
// and `sums` need not be initialised.
template <ScalarType kType, int N, bool kFresh>
__device__ __forceinline__ void MultiplyAddFirst(Sum<kType> (&sums)[48], const uint32_t (&a)[4], uint64_t b) {
  static_assert(kType == ScalarType::kF16 || kType == ScalarType::kBF16 || kType == ScalarType::kI8);
  static_assert(N == 32 || N == 64 || N == 96);
  constexpr bool add = !kFresh;
#define MAXSIM_FIRST_OF(n, a0, a1, a2, a3, b_at, add_at, kind, tail, written, read) \
  if constexpr (kFresh) {                                                           \
    MAXSIM_WGMMA_ROWS(n, a0, a1, a2, a3, b_at, add_at, kind, tail, written);        \
  } else {                                                                          \
    MAXSIM_WGMMA_ROWS(n, a0, a1, a2, a3, b_at, add_at, kind, tail, read);           \
  }
#define MAXSIM_FIRST(n, a0, a1, a2, a3, b_at, add_at)                                              \
  if constexpr (N == n && kType == ScalarType::kF16) {                                             \
    MAXSIM_FIRST_OF(n, a0, a1, a2, a3, b_at, add_at, "k16.f32.f16.f16", ", 1, 1, 0", "=f", "+f")   \
  } else if constexpr (N == n && kType == ScalarType::kBF16) {                                     \
    MAXSIM_FIRST_OF(n, a0, a1, a2, a3, b_at, add_at, "k16.f32.bf16.bf16", ", 1, 1, 0", "=f", "+f") \
  } else if constexpr (N == n) {                                                                   \
    MAXSIM_FIRST_OF(n, a0, a1, a2, a3, b_at, add_at, "k32.s32.s8.s8", "", "=r", "+r")              \
  }
  MAXSIM_FIRST(32, 16, 17, 18, 19, 20, 21)
  MAXSIM_FIRST(64, 32, 33, 34, 35, 36, 37)
  MAXSIM_FIRST(96, 48, 49, 50, 51, 52, 53)
#undef MAXSIM_FIRST
#undef MAXSIM_FIRST_OF
}

// sums (+)= a * b for the first N columns, 96 or 192. `a` and `b` come from DescribeOperand.
template <ScalarType kType, int N>
__device__ __forceinline__ void MultiplyAddShared(Sum<kType> (&sums)[96], uint64_t a, uint64_t b, bool add) {
  static_assert(kType == ScalarType::kF16 || kType == ScalarType::kBF16 || kType == ScalarType::kI8);
  static_assert(N == 96 || N == 192);
  if constexpr (kType == ScalarType::kF16) {
    if constexpr (N == 96) MAXSIM_WGMMA_SHARED(96, 48, 49, 50, "k16.f32.f16.f16", ", 1, 1, 0, 0", "+f");
    if constexpr (N == 192) MAXSIM_WGMMA_SHARED(192, 96, 97, 98, "k16.f32.f16.f16", ", 1, 1, 0, 0", "+f");
  } else if constexpr (kType == ScalarType::kBF16) {
    if constexpr (N == 96) MAXSIM_WGMMA_SHARED(96, 48, 49, 50, "k16.f32.bf16.bf16", ", 1, 1, 0, 0", "+f");
    if constexpr (N == 192) MAXSIM_WGMMA_SHARED(192, 96, 97, 98, "k16.f32.bf16.bf16", ", 1, 1, 0, 0", "+f");
  } else {
    if constexpr (N == 96) MAXSIM_WGMMA_SHARED(96, 48, 49, 50, "k32.s32.s8.s8", "", "+r");
    if constexpr (N == 192) MAXSIM_WGMMA_SHARED(192, 96, 97, 98, "k32.s32.s8.s8", "", "+r");
  }
}

#undef MAXSIM_TEXT32
#undef MAXSIM_TEXT64
#undef MAXSIM_TEXT96
#undef MAXSIM_TEXT128
#undef MAXSIM_TEXT192
#undef MAXSIM_EIGHT
#undef MAXSIM_SUMS32
#undef MAXSIM_SUMS64
#undef MAXSIM_SUMS96
#undef MAXSIM_SUMS128
#undef MAXSIM_SUMS192
#undef MAXSIM_WGMMA_ROWS
#undef MAXSIM_WGMMA_SHARED

}  // namespace maxsim::cuda::sm90
