// Queries in the form in which the kernels that scan codes multiply them: fragments of mma.sync.m16n8k32's operand A.
//
// A step is one such product: 32 columns. A group of 128 coordinates of a row of plane 0 has four steps, a tail word of
// 32 coordinates (kernels/codes/code_layout.h) has one. In a step each of the four lanes of a quad holds two registers
// of four bytes of a document's token. StepColumn says which coordinate one such byte is. The order is the one in which
// the kernels expand words (kernels/cuda/codes/common/expand.cuh) without moving data between lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/codes/code_layout.h"
#include "kernels/codes/query_codes.h"
#include "kernels/cuda/codes/common/scan_params.h"

namespace maxsim::cuda {

// Returns the steps of a row.
constexpr int32_t ScanSteps(int32_t dim) { return CodeWords(dim); }

// Returns which coordinate byte `byte` (0 .. 3) of a lane's register `half` (0 or 1) is in a step. `quad_lane` (0 .. 3)
// is the lane's number in its quad.
constexpr int32_t StepColumn(int32_t dim, int planes, int32_t step, int32_t quad_lane, int32_t half, int32_t byte) {
  const int32_t grouped_steps = CodeWords(dim) / 4 * 4;
  const bool grouped = step < grouped_steps;
  // In a group, `part` is the step's index. In a tail word all four lanes hold the same word, and each expands a part
  // of its own.
  const int32_t part = grouped ? step % 4 : quad_lane;
  const int32_t byte_of_word = planes == 1 ? byte : 2 * half + byte / 2;
  const int32_t bit = planes == 1 ? part + 4 * half : part + 4 * (byte % 2);
  const int32_t word = grouped ? step / 4 * 4 + quad_lane : step;
  return ColumnOfBit(dim, word, 8 * byte_of_word + bit);
}

// Queries that are scanned together: their rows, row tile by row tile. A query's rows fill whole tiles.
struct PackedQueries {
  std::vector<uint32_t> fragments;    // [num_row_tiles, num_steps, 32 lanes, 4 registers]
  std::vector<ScanRow> rows;          // [num_row_tiles * kScanTileRows]
  std::vector<int32_t> tile_queries;  // [num_row_tiles], which is even

  int32_t num_row_tiles() const { return static_cast<int32_t>(tile_queries.size()); }
};

// Returns the number of row tiles that a query's rows fill.
inline int32_t RowTiles(const QueryCodes& query) { return (query.num_tokens + kScanTileRows - 1) / kScanTileRows; }

// Packs queries for scans of the same number of planes over codes of the same shape.
PackedQueries PackQueries(absl::Span<const QueryCodes* const> queries);

}  // namespace maxsim::cuda
