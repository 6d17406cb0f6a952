// The bit layout of a token's code, which files, host memory and GPU kernels share.
//
// A code has 4 bits for each coordinate of the rotated token vector: a sign and a magnitude cell 0 .. 7
// (kernels/codes/code_levels.h). The bits are stored as planes. Plane 0 has the signs, plane 1 the highest bit of the
// magnitude cells, and planes 2 and 3, which are stored together, the two lower bits. Plane 0 alone is a code, planes 0
// and 1 together are a more exact one, and all four planes the most exact one.
//
// A plane is an array of rows, one per token, in the order of the tokens and without gaps, even between documents. It
// begins at a multiple of kPlaneAlignment bytes. A row of plane 0 or 1 has PlaneRowBytes(dim) bytes, with one bit per
// coordinate; a row of planes 2 and 3 has twice as many bytes. Bits beyond the last coordinate are 0.
//
// A row consists of groups of 128 coordinates (16 bytes each), and then up to three tail words of 32 coordinates:
//
//   group g:      bit r of byte 16 g + c      is coordinate 128 g + 16 r + c      (c = 0 .. 15, r = 0 .. 7)
//   tail word v:  bit r of byte T + 4 v + c   is coordinate 8 T + 32 v + 4 r + c  (c = 0 .. 3, r = 0 .. 7)
//
// where T = 16 * (number of groups). So one shift and one mask of 16 bytes (or of a tail word) give consecutive
// coordinates. On a GPU, the 32-bit word w of a group has all the bits that lane w of a group of four threads needs for
// its part of a tensor core's operand.
//
// Planes 2 and 3 have a field of two bits for each bit of plane 0: the lower bit of a field is plane 3, the upper bit
// plane 2. The field of bit p of word w of plane 0 is in word 2 w (if p is even) or 2 w + 1 (if p is odd), at bits 2 *
// (p / 2) and 2 * (p / 2) + 1.
//
// Words are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maxsim {

inline constexpr size_t kPlaneAlignment = 64;

inline constexpr int32_t kCodeWordColumns = 32;
inline constexpr int32_t kCodeGroupColumns = 128;

// Returns the number of 32-bit words in a row of plane 0.
constexpr int32_t CodeWords(int32_t dim) { return (dim + kCodeWordColumns - 1) / kCodeWordColumns; }

// Returns the number of coordinates for which a row has bits: `dim` rounded up to whole words.
constexpr int32_t CodeColumns(int32_t dim) { return CodeWords(dim) * kCodeWordColumns; }

// Returns the size in bytes of a row of plane 0 or of plane 1.
constexpr size_t PlaneRowBytes(int32_t dim) { return static_cast<size_t>(CodeWords(dim)) * 4; }

// Returns the size in bytes of a row of planes 2 and 3.
constexpr size_t FieldRowBytes(int32_t dim) { return 2 * PlaneRowBytes(dim); }

// Planes of a whole code.
inline constexpr int kMaxPlanes = 4;

// Returns whether `planes` planes are a complete code: 1, 2 or 4.
constexpr bool IsPlaneCount(int planes) { return planes == 1 || planes == 2 || planes == 4; }

// Returns the size in bytes of a token's code with 1, 2 or 4 planes, without its factor.
constexpr size_t CodeBytes(int32_t dim, int planes) { return PlaneRowBytes(dim) * static_cast<size_t>(planes); }

struct BitPlace {
  int32_t byte = 0;
  int32_t bit = 0;
};

// Returns the place of a coordinate in a row of plane 0 or 1. `column` < CodeColumns(dim).
constexpr BitPlace PlaneBit(int32_t dim, int32_t column) {
  const int32_t grouped = CodeWords(dim) / 4 * kCodeGroupColumns;
  if (column < grouped) {
    const int32_t in_group = column % kCodeGroupColumns;
    return {column / kCodeGroupColumns * 16 + in_group % 16, in_group / 16};
  }
  const int32_t in_word = column % kCodeWordColumns;
  return {column / kCodeWordColumns * 4 + in_word % 4, in_word / 4};
}

// Returns the place of the lower bit of a coordinate's field in a row of planes 2 and 3.
constexpr BitPlace FieldBit(int32_t dim, int32_t column) {
  const BitPlace place = PlaneBit(dim, column);
  return {place.byte / 4 * 8 + place.bit % 2 * 4 + place.byte % 4, place.bit / 2 * 2};
}

// Returns the coordinate at bit `bit` (0 .. 31) of word `word` of a row of plane 0: the inverse of PlaneBit.
constexpr int32_t ColumnOfBit(int32_t dim, int32_t word, int32_t bit) {
  const int32_t byte = bit / 8;
  if (word < CodeWords(dim) / 4 * 4) return word / 4 * kCodeGroupColumns + bit % 8 * 16 + word % 4 * 4 + byte;
  return word * kCodeWordColumns + bit % 8 * 4 + byte;
}

}  // namespace maxsim
