// Expands words of planes to bytes of mma.sync's operand B. kernels/cuda/codes/fragments.h says which coordinate is
// where.
//
//   1 plane   a byte is the window of bits that ends at the coordinate's bit (kernels/codes/query_codes.h): one shift
//             of the word. Bytes are unsigned.
//   2 planes  a byte is the level. PRMT looks it up in a table of 4 bytes, by a field of two bits.
//   4 planes  a byte is half of (the level - 1): a table of 8 bytes by magnitude, inverted if the sign is negative
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/code_levels.h"

namespace maxsim::cuda {

// One word each of planes 0 and 1 of a row, and the two words of planes 2 and 3, which have two bits per coordinate.
// Members of planes that are not scanned are not used.
struct CodeWord {
  uint32_t plane0;
  uint32_t plane1;
  uint2 fields;
};

// A step's two registers.
struct StepBytes {
  uint32_t low;
  uint32_t high;
};

// Returns four bytes as a word, the first one lowest.
constexpr uint32_t TableWord(int32_t a, int32_t b, int32_t c, int32_t d) {
  return (static_cast<uint32_t>(a) & 255u) | (static_cast<uint32_t>(b) & 255u) << 8 |
         (static_cast<uint32_t>(c) & 255u) << 16 | (static_cast<uint32_t>(d) & 255u) << 24;
}

// By the field (high magnitude bit, sign bit).
constexpr uint32_t kLevels2Table = TableWord(-kLevels2[0], kLevels2[0], -kLevels2[1], kLevels2[1]);
// kHalfLevels4 by magnitude cell, with all bits inverted. Expand inverts them again if the sign is positive.
constexpr uint32_t kInvertedHalfLevels4Low =
    TableWord(~kHalfLevels4[0], ~kHalfLevels4[1], ~kHalfLevels4[2], ~kHalfLevels4[3]);
constexpr uint32_t kInvertedHalfLevels4High =
    TableWord(~kHalfLevels4[4], ~kHalfLevels4[5], ~kHalfLevels4[6], ~kHalfLevels4[7]);

__device__ __forceinline__ uint32_t Permute(uint32_t low, uint32_t high, uint32_t selectors) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selectors));
  return bytes;
}

// Expands part 0 .. 3 of a word, which has the bits `part` and `part` + 4 of each of the word's bytes.
template <int kPlanes>
__device__ __forceinline__ StepBytes Expand(const CodeWord& word, int part) {
  if constexpr (kPlanes == 1) {
    return {word.plane0 << (7 - part), word.plane0 << (3 - part)};
  } else if constexpr (kPlanes == 2) {
    // `even` has the two-bit fields of the word's even bits, and `odd` those of its odd bits. In a field, the sign is
    // the low bit and the magnitude bit is the high bit.
    const uint32_t even = (word.plane0 & 0x55555555u) | (word.plane1 << 1 & 0xAAAAAAAAu);
    const uint32_t odd = (word.plane0 >> 1 & 0x55555555u) | (word.plane1 & 0xAAAAAAAAu);
    const uint32_t selectors = (part & 1 ? odd : even) >> (part & 2) & 0x33333333u;
    return {Permute(kLevels2Table, kLevels2Table, selectors), Permute(kLevels2Table, kLevels2Table, selectors >> 16)};
  } else {
    const uint32_t low_bits = (part & 1 ? word.fields.y : word.fields.x) >> (part & 2) & 0x33333333u;
    const uint32_t high_bit = (part == 3 ? word.plane1 >> 1 : word.plane1 << (2 - part)) & 0x44444444u;
    const uint32_t selectors = low_bits | high_bit;
    // The signs of bit `part` + 4 (`upper`) and of bit `part` (`lower`) of each byte, at the top of the bytes. If bit
    // 3 of a selector is set, PRMT repeats the chosen byte's top bit: 0xff for a positive level, 0 for a negative
    // one.
    const uint32_t upper = word.plane0 << (3 - part), lower = upper << 4;
    return {
        Permute(kInvertedHalfLevels4Low, kInvertedHalfLevels4High, selectors) ^ Permute(upper, lower, 0x9d8cu),
        Permute(kInvertedHalfLevels4Low, kInvertedHalfLevels4High, selectors >> 16) ^ Permute(upper, lower, 0xbfaeu)};
  }
}

// The inner product of a query token's integers Q and a document token's levels L is <Q, L> = kProductScale * (the
// product of fragments and expanded bytes) + ScanRow::offset.
template <int kPlanes>
inline constexpr int32_t kProductScale = kPlanes == 2 ? 1 : 2;

// mma.sync m16n8k32: sums[16 x 8] += query[16 x 32] * bytes[32 x 8], S8 by U8 (1 plane) or S8 by S8 (sm_80).
template <int kPlanes>
__device__ __forceinline__ void MultiplyStep(const uint4& query, const StepBytes& bytes, int32_t (&sums)[4]) {
  if constexpr (kPlanes == 1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(query.x), "r"(query.y), "r"(query.z), "r"(query.w), "r"(bytes.low), "r"(bytes.high));
  } else {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(query.x), "r"(query.y), "r"(query.z), "r"(query.w), "r"(bytes.low), "r"(bytes.high));
  }
}

}  // namespace maxsim::cuda
