// Constants of query and document rows that all scoring kernels use: how many rows are summed together, how wide the
// parts of a row are, and how rows are padded in device memory.
#pragma once

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim {

// The number of rows in a query tile. One butterfly (a fixed tree of additions) adds the weighted maxima of its query
// tokens. The number determines the order of additions and thus the bits of scores, so it must never be tuned.
inline constexpr int32_t kQueryTileTokens = 32;

// Returns the number of query tiles that a query of `num_tokens` tokens takes if it shares none.
constexpr int64_t NumQueryTiles(int64_t num_tokens) { return (num_tokens + kQueryTileTokens - 1) / kQueryTileTokens; }

// The tail of a query (its tokens beyond the last whole query tile; all tokens of a shorter query) may share a query
// tile with other tails over the same documents: four tails of up to this many tokens, or two of up to twice as many.
// A tail's sum has the same bits whether it has a query tile of its own or a part of a shared one, because absent
// tokens add zeros.
inline constexpr int32_t kShortQueryTokens = 8;

// Returns the rows that a query takes if tails (tokens after a whole query tile) share query tiles: whole query tiles
// and, for a short tail, 8 or 16 rows of a shared one.
constexpr int64_t PackedRows(int64_t num_tokens) {
  const int64_t rest = num_tokens % kQueryTileTokens;
  if (rest == 0) return num_tokens;
  if (rest <= kShortQueryTokens) return num_tokens - rest + kShortQueryTokens;
  if (rest <= 2 * kShortQueryTokens) return num_tokens - rest + 2 * kShortQueryTokens;
  return num_tokens - rest + kQueryTileTokens;
}

// The bytes of a row in one k-step of the inner loop: 16 half-precision columns (the k of one tensor-core instruction,
// whose sum is the unit of the order of additions), 32 INT8 columns, or 8 FP32 columns.
inline constexpr int32_t kStepBytes = 32;

// The number of columns whose products are added in one chain. Wider rows are cut into several chains, and the chains'
// sums are added in order. One chain of 4,096 FP32 additions (or of 256 tensor-core instructions, which truncate) would
// have an error of more than 1e-5 when all products have the same sign. The number determines the order of additions,
// except for INT8, whose sums are exact.
inline constexpr int32_t kChainColumns = 1024;

// Rows of documents and queries in device memory are padded with zero columns to a multiple of this, so that they are
// whole vectors of 16 bytes.
inline constexpr int32_t kRowAlignColumns = 8;
inline constexpr int32_t kRowAlignColumnsI8 = 16;

// Returns the bytes of one row in device memory. All code that needs the padding of rows there calls this function.
constexpr int64_t DeviceRowBytes(ScalarType type, int32_t dim) {
  if (IsResidual(type)) return (RowBytes(type, dim) + 15) / 16 * 16;
  const int32_t align = type == ScalarType::kI8 ? kRowAlignColumnsI8 : kRowAlignColumns;
  return int64_t{(dim + align - 1) / align * align} * static_cast<int64_t>(SizeOf(type));
}

}  // namespace maxsim
