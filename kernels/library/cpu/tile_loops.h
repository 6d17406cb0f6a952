// CPU loops over tiles of kTileRows rows, for the operators of nearest.h and triadic.h. Tiles are stored column by
// column, so that a vector register has one column of many rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::library {

// Rows per tile. One column of a tile fills four AVX-512 registers or eight AVX2 registers.
inline constexpr size_t kTileRows = 64;

// The loops for one instruction set. All sets add in the same order, without fused multiply-adds, and so give the same
// bits.
struct TileLoops {
  // For each row r of the tile [num_columns][kTileRows]: sums[r] += sum over columns c of (vector[c] - tile[c][r])^2.
  void (*add_squares)(const float* vector, const float* tile, size_t num_columns, float* sums);
  // For each row r of the tile: sums[r] += sum over columns c of vector[c] * tile[c][r].
  void (*add_products)(const float* vector, const float* tile, size_t num_columns, float* sums);
  // For each column c of the row-major array rows [num_rows][num_columns]: sums[c] += sum over rows r of factors[r] *
  // rows[r][c].
  void (*add_rows)(const float* factors, const float* rows, size_t num_rows, size_t num_columns, float* sums);
  // Return the smallest or the largest of sums[0 .. kTileRows - 1]. None of the sums may be NaN.
  float (*smallest)(const float* sums);
  float (*largest)(const float* sums);
};

// Returns the loops for this machine.
const TileLoops& BestTileLoops();

// Fills a tile in FP32 with columns `begin_column` .. `begin_column` + `num_columns` - 1 of `num_rows` rows (at most
// kTileRows). `rows` is [.., dim] of `type`. Tile rows from num_rows on get the value `padding`.
void FillTile(ScalarType type, const void* rows, size_t num_rows, size_t dim, size_t begin_column, size_t num_columns,
              float padding, float* tile);

}  // namespace maxsim::library
