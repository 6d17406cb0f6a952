// wgmma (sm_90a): a warpgroup's sums[64 x N] (+)= a[64 x 16] * b[16 x N], 16-bit operands, FP32 sums; or with a k of
// 32, INT8 operands and int32 sums. `a` is in registers, `b` in shared memory, K-major with the 128-byte swizzle.
//
// Instructions of a group run asynchronously: no register of theirs may be touched between FenceOperands and the
// WaitGroups that covers them. Sums are bit for bit those of mma.sync over the same groups of 16 columns.
#pragma once

#include <cstdint>

#include "kernels/cuda/sums.cuh"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Before the first instruction of a group.
__device__ __forceinline__ void FenceOperands() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void CommitGroup() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending of the last committed groups run.
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

// Describes a K-major operand in shared memory at `shared` (a multiple of 1,024): rows of 128 bytes, swizzled, groups
// of eight rows 1,024 bytes apart. A step of 32 bytes is 2 further.
__device__ __forceinline__ uint64_t DescribeOperand(uint32_t shared) {
  constexpr uint64_t kLeadingBytes = uint64_t{1} << 16;         // not used with a swizzle
  constexpr uint64_t kStrideBytes = uint64_t{1024 / 16} << 32;  // between groups of eight rows
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return ((shared & 0x3ffff) >> 4) | kLeadingBytes | kStrideBytes | kSwizzle128;
}

// Operand lists: R names the registers of eight sums in the instruction's text, S binds them.
#define MAXSIM_R0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MAXSIM_R1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define MAXSIM_R2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define MAXSIM_R3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define MAXSIM_R4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define MAXSIM_R5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define MAXSIM_R6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define MAXSIM_R7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define MAXSIM_S(constraint, g)                                                                                   \
  constraint(sums[8 * g]), constraint(sums[8 * g + 1]), constraint(sums[8 * g + 2]), constraint(sums[8 * g + 3]), \
      constraint(sums[8 * g + 4]), constraint(sums[8 * g + 5]), constraint(sums[8 * g + 6]),                      \
      constraint(sums[8 * g + 7])

// One instruction: operands a0 .. a3, the description of b, and whether to add to the sums come after the sums. `kind`
// names k and the types; `tail` is what floating-point types have behind the predicate (signs and transposition).
#define MAXSIM_WGMMA(n, kind, tail, sums_text, a0, a1, a2, a3, b_text, add_text, ...)                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add_text                                            \
               ", 0;\n"                                                                                    \
               "wgmma.mma_async.sync.aligned.m64n" n kind " {" sums_text "}, {" a0 ", " a1 ", " a2 ", " a3 \
               "}, " b_text ", add" tail ";\n}\n"                                                          \
               : __VA_ARGS__                                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))

// The instance of N.
#define MAXSIM_WGMMA_OF_N(kind, tail, constraint)                                                                      \
  if constexpr (N == 16) {                                                                                             \
    MAXSIM_WGMMA("16", kind, tail, MAXSIM_R0, "%8", "%9", "%10", "%11", "%12", "%13", MAXSIM_S(constraint, 0));        \
  } else if constexpr (N == 32) {                                                                                      \
    MAXSIM_WGMMA("32", kind, tail, MAXSIM_R0 ", " MAXSIM_R1, "%16", "%17", "%18", "%19", "%20", "%21",                 \
                 MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1));                                                    \
  } else if constexpr (N == 48) {                                                                                      \
    MAXSIM_WGMMA("48", kind, tail, MAXSIM_R0 ", " MAXSIM_R1 ", " MAXSIM_R2, "%24", "%25", "%26", "%27", "%28", "%29",  \
                 MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1), MAXSIM_S(constraint, 2));                           \
  } else if constexpr (N == 64) {                                                                                      \
    MAXSIM_WGMMA("64", kind, tail, MAXSIM_R0 ", " MAXSIM_R1 ", " MAXSIM_R2 ", " MAXSIM_R3, "%32", "%33", "%34", "%35", \
                 "%36", "%37", MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1), MAXSIM_S(constraint, 2),              \
                 MAXSIM_S(constraint, 3));                                                                             \
  } else if constexpr (N == 80) {                                                                                      \
    MAXSIM_WGMMA("80", kind, tail, MAXSIM_R0 ", " MAXSIM_R1 ", " MAXSIM_R2 ", " MAXSIM_R3 ", " MAXSIM_R4, "%40",       \
                 "%41", "%42", "%43", "%44", "%45", MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1),                  \
                 MAXSIM_S(constraint, 2), MAXSIM_S(constraint, 3), MAXSIM_S(constraint, 4));                           \
  } else if constexpr (N == 96) {                                                                                      \
    MAXSIM_WGMMA("96", kind, tail,                                                                                     \
                 MAXSIM_R0 ", " MAXSIM_R1 ", " MAXSIM_R2 ", " MAXSIM_R3 ", " MAXSIM_R4 ", " MAXSIM_R5, "%48", "%49",   \
                 "%50", "%51", "%52", "%53", MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1),                         \
                 MAXSIM_S(constraint, 2), MAXSIM_S(constraint, 3), MAXSIM_S(constraint, 4), MAXSIM_S(constraint, 5));  \
  } else if constexpr (N == 112) {                                                                                     \
    MAXSIM_WGMMA("112", kind, tail,                                                                                    \
                 MAXSIM_R0 ", " MAXSIM_R1 ", " MAXSIM_R2 ", " MAXSIM_R3 ", " MAXSIM_R4 ", " MAXSIM_R5 ", " MAXSIM_R6,  \
                 "%56", "%57", "%58", "%59", "%60", "%61", MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1),           \
                 MAXSIM_S(constraint, 2), MAXSIM_S(constraint, 3), MAXSIM_S(constraint, 4), MAXSIM_S(constraint, 5),   \
                 MAXSIM_S(constraint, 6));                                                                             \
  } else if constexpr (N == 128) {                                                                                     \
    MAXSIM_WGMMA("128", kind, tail,                                                                                    \
                 MAXSIM_R0 ", " MAXSIM_R1 ", " MAXSIM_R2 ", " MAXSIM_R3 ", " MAXSIM_R4 ", " MAXSIM_R5 ", " MAXSIM_R6   \
                           ", " MAXSIM_R7,                                                                             \
                 "%64", "%65", "%66", "%67", "%68", "%69", MAXSIM_S(constraint, 0), MAXSIM_S(constraint, 1),           \
                 MAXSIM_S(constraint, 2), MAXSIM_S(constraint, 3), MAXSIM_S(constraint, 4), MAXSIM_S(constraint, 5),   \
                 MAXSIM_S(constraint, 6), MAXSIM_S(constraint, 7));                                                    \
  }

// sums (+)= a * b for the first N columns; kSums >= N / 2.
template <ScalarType kType, int N, int kSums>
__device__ __forceinline__ void MultiplyAdd(Sum<kType> (&sums)[kSums], const uint32_t (&a)[4], uint64_t b, bool add) {
  static_assert(kType == ScalarType::kF16 || kType == ScalarType::kBF16 || kType == ScalarType::kI8);
  static_assert(N % 16 == 0 && N >= 16 && N <= 128 && kSums >= N / 2);
  if constexpr (kType == ScalarType::kF16) {
    MAXSIM_WGMMA_OF_N("k16.f32.f16.f16", ", 1, 1, 0", "+f")
  } else if constexpr (kType == ScalarType::kBF16) {
    MAXSIM_WGMMA_OF_N("k16.f32.bf16.bf16", ", 1, 1, 0", "+f")
  } else {
    MAXSIM_WGMMA_OF_N("k32.s32.s8.s8", "", "+r")
  }
}

#undef MAXSIM_R0
#undef MAXSIM_R1
#undef MAXSIM_R2
#undef MAXSIM_R3
#undef MAXSIM_R4
#undef MAXSIM_R5
#undef MAXSIM_R6
#undef MAXSIM_R7
#undef MAXSIM_S
#undef MAXSIM_WGMMA
#undef MAXSIM_WGMMA_OF_N

}  // namespace maxsim::cuda::sm90
