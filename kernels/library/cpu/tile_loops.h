// CPU loops over tiles of kTileRows rows. Tiles are stored column by column, so that a vector register holds one column
// of many rows. The operators of nearest.h and triadic.h spend most of their time in these loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::library {

// Rows per tile. One column of a tile fills four AVX-512 registers or eight AVX2 registers.
inline constexpr size_t kTileRows = 64;

// The loops for one instruction set. All of them add in the same order, without fused multiply-adds, so that every
// instruction set gives the same bits.
struct TileLoops {
  // For each row r of the tile [num_columns][kTileRows]: sums[r] += sum over columns c of (vector[c] - tile[c][r])^2.
  void (*add_squares)(const float* vector, const float* tile, size_t num_columns, float* sums);
  // For each row r of the tile: sums[r] += sum over columns c of vector[c] * tile[c][r].
  void (*add_products)(const float* vector, const float* tile, size_t num_columns, float* sums);
  // For each column c of rows [num_rows][num_columns], which lie row by row:
  // sums[c] += sum over rows r of factors[r] * rows[r][c].
  void (*add_rows)(const float* factors, const float* rows, size_t num_rows, size_t num_columns, float* sums);
  // These return the smallest and the largest of sums[0 .. kTileRows - 1]. None of the sums may be NaN.
  float (*smallest)(const float* sums);
  float (*largest)(const float* sums);
};

// Returns the loops for this machine.
const TileLoops& BestTileLoops();

// Widens columns `begin_column` .. + num_columns of `num_rows` rows (at most kTileRows) of [.., dim] in `type` into a
// tile. The columns of rows beyond num_rows get the value `padding`.
void FillTile(ScalarType type, const void* rows, size_t num_rows, size_t dim, size_t begin_column, size_t num_columns,
              float padding, float* tile);

}  // namespace maxsim::library
