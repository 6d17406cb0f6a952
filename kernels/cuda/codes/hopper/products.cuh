// The wgmma instructions (sm_90a) of scans over codes: int32 sums of products of 8-bit integers. Each instruction
// multiplies 32 coordinates of every token (K = 32). While an instruction runs, its registers must not be touched.
// kernels/cuda/score/hopper_common/ptx/wgmma.cuh has the fences for this, and describes operands in shared memory.
#pragma once

#include <cstdint>

namespace maxsim::cuda::sm90 {

// Lists sums[8 g] to sums[8 g + 7] as operands of an asm statement, each with the constraint `c`.
#define MAXSIM_SUMS8(c, s, g)                                                                                        \
  c(s[8 * g]), c(s[8 * g + 1]), c(s[8 * g + 2]), c(s[8 * g + 3]), c(s[8 * g + 4]), c(s[8 * g + 5]), c(s[8 * g + 6]), \
      c(s[8 * g + 7])

// sums[64 tokens x 32 query tokens] = tokens * query if kFresh, and += otherwise. `tokens` is a lane's part of the
// operand, in registers: U8 if kUnsigned, else S8. `query` describes rows of S8 in shared memory.
#define MAXSIM_TOKENS_BY_QUERY(types, c, add)                                                                         \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n32k32.s32." types  \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, " \
               "add;\n}\n"                                                                                            \
               : MAXSIM_SUMS8(c, sums, 0), MAXSIM_SUMS8(c, sums, 1)                                                   \
               : "r"(tokens[0]), "r"(tokens[1]), "r"(tokens[2]), "r"(tokens[3]), "l"(query))
template <bool kUnsigned, bool kFresh>
__device__ __forceinline__ void MultiplyTokens(int32_t (&sums)[16], const uint32_t (&tokens)[4], uint64_t query) {
  if constexpr (kUnsigned && kFresh) MAXSIM_TOKENS_BY_QUERY("u8.s8", "=r", "0");
  if constexpr (kUnsigned && !kFresh) MAXSIM_TOKENS_BY_QUERY("u8.s8", "+r", "1");
  if constexpr (!kUnsigned && kFresh) MAXSIM_TOKENS_BY_QUERY("s8.s8", "=r", "0");
  if constexpr (!kUnsigned && !kFresh) MAXSIM_TOKENS_BY_QUERY("s8.s8", "+r", "1");
}

// sums[64 query tokens x 128 tokens] = query * tokens if kFresh, and += otherwise. `query` and `tokens` describe rows
// in shared memory: `query` has rows of S8, and `tokens` has rows of U8 if kUnsigned, else of S8.
#define MAXSIM_QUERY_BY_TOKENS(types, c, add)                                                                         \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n128k32.s32." types \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "         \
               "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "           \
               "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "           \
               "%56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, add;\n}\n"                                         \
               : MAXSIM_SUMS8(c, sums, 0), MAXSIM_SUMS8(c, sums, 1), MAXSIM_SUMS8(c, sums, 2),                        \
                 MAXSIM_SUMS8(c, sums, 3), MAXSIM_SUMS8(c, sums, 4), MAXSIM_SUMS8(c, sums, 5),                        \
                 MAXSIM_SUMS8(c, sums, 6), MAXSIM_SUMS8(c, sums, 7)                                                   \
               : "l"(query), "l"(tokens))
template <bool kUnsigned, bool kFresh>
__device__ __forceinline__ void MultiplyQuery(int32_t (&sums)[64], uint64_t query, uint64_t tokens) {
  if constexpr (kUnsigned && kFresh) MAXSIM_QUERY_BY_TOKENS("s8.u8", "=r", "0");
  if constexpr (kUnsigned && !kFresh) MAXSIM_QUERY_BY_TOKENS("s8.u8", "+r", "1");
  if constexpr (!kUnsigned && kFresh) MAXSIM_QUERY_BY_TOKENS("s8.s8", "=r", "0");
  if constexpr (!kUnsigned && !kFresh) MAXSIM_QUERY_BY_TOKENS("s8.s8", "+r", "1");
}

#undef MAXSIM_SUMS8
#undef MAXSIM_TOKENS_BY_QUERY
#undef MAXSIM_QUERY_BY_TOKENS

// Returns the offset of 4 bytes of a row in an operand for DescribeOperand. A step has two halves of 16 bytes. The 4
// bytes are those of half `half` that lane `quad_lane` of a quad would hold. Operands begin at a multiple of 1,024
// bytes.
__device__ __forceinline__ uint32_t OperandOffset(int row, int step, int half, int quad_lane) {
  return static_cast<uint32_t>(row * 128 + (((2 * step + half) ^ (row & 7)) << 4) + quad_lane * 4);
}

}  // namespace maxsim::cuda::sm90
