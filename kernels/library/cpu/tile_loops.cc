#include "kernels/library/cpu/tile_loops.h"

#include <cstring>

namespace maxsim::library {
namespace {

// A vector of 16 floats (512 bits). Narrower instruction sets use several registers for it.
constexpr size_t kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

// Load and Store take pointers, because functions that return a vector have different calling conventions for each
// instruction set.
__attribute__((always_inline)) inline void Load(const float* from, Lanes* to) { std::memcpy(to, from, sizeof(Lanes)); }
__attribute__((always_inline)) inline void Store(const Lanes* from, float* to) { std::memcpy(to, from, sizeof(Lanes)); }

// sum += (value - row)^2, or value * row, for the 16 rows at `tile`.
template <bool kSquares>
__attribute__((always_inline)) inline void AddLanes(float value, const float* tile, Lanes* sum) {
  Lanes lanes;
  Load(tile, &lanes);
  if constexpr (kSquares) {
    const Lanes difference = value - lanes;
    *sum += difference * difference;
  } else {
    *sum += value * lanes;
  }
}

template <bool kSquares>
__attribute__((always_inline)) inline void AddTile(const float* vector, const float* tile, size_t num_columns,
                                                   float* sums) {
  static_assert(kTileRows == 4 * kLanes);
  Lanes sum0, sum1, sum2, sum3;  // by name, so that they stay in registers
  Load(sums, &sum0);
  Load(sums + kLanes, &sum1);
  Load(sums + 2 * kLanes, &sum2);
  Load(sums + 3 * kLanes, &sum3);
  for (size_t column = 0; column < num_columns; ++column, tile += kTileRows) {
    AddLanes<kSquares>(vector[column], tile, &sum0);
    AddLanes<kSquares>(vector[column], tile + kLanes, &sum1);
    AddLanes<kSquares>(vector[column], tile + 2 * kLanes, &sum2);
    AddLanes<kSquares>(vector[column], tile + 3 * kLanes, &sum3);
  }
  Store(&sum0, sums);
  Store(&sum1, sums + kLanes);
  Store(&sum2, sums + 2 * kLanes);
  Store(&sum3, sums + 3 * kLanes);
}

// Returns the smallest (or the largest) of the values of a tile's rows.
template <bool kLargest>
__attribute__((always_inline)) inline float BestOf(const float* sums) {
  Lanes best;
  Load(sums, &best);
  for (size_t row = kLanes; row < kTileRows; row += kLanes) {
    Lanes lanes;
    Load(sums + row, &lanes);
    best = (kLargest ? lanes > best : lanes < best) ? lanes : best;
  }
  float result = best[0];
  for (size_t i = 1; i < kLanes; ++i) result = (kLargest ? best[i] > result : best[i] < result) ? best[i] : result;
  return result;
}

__attribute__((always_inline)) inline void AddRowsTo(const float* factors, const float* rows, size_t num_rows,
                                                     size_t num_columns, float* sums) {
  size_t column = 0;
  for (; column + kLanes <= num_columns; column += kLanes) {
    Lanes sum;
    Load(sums + column, &sum);
    for (size_t row = 0; row < num_rows; ++row) {
      Lanes lanes;
      Load(rows + row * num_columns + column, &lanes);
      sum += factors[row] * lanes;
    }
    Store(&sum, sums + column);
  }
  for (; column < num_columns; ++column) {
    float sum = sums[column];
    for (size_t row = 0; row < num_rows; ++row) sum += factors[row] * rows[row * num_columns + column];
    sums[column] = sum;
  }
}

// Defines the loops of an instruction set.
// NOLINTBEGIN(bugprone-macro-parentheses): an attribute and parts of names have none.
#define MAXSIM_TILE_LOOPS(name, target)                                                                       \
  target void AddSquares##name(const float* vector, const float* tile, size_t num_columns, float* sums) {     \
    AddTile<true>(vector, tile, num_columns, sums);                                                           \
  }                                                                                                           \
  target void AddProducts##name(const float* vector, const float* tile, size_t num_columns, float* sums) {    \
    AddTile<false>(vector, tile, num_columns, sums);                                                          \
  }                                                                                                           \
  target void AddRows##name(const float* factors, const float* rows, size_t num_rows, size_t num_columns,     \
                            float* sums) {                                                                    \
    AddRowsTo(factors, rows, num_rows, num_columns, sums);                                                    \
  }                                                                                                           \
  target float Smallest##name(const float* sums) { return BestOf<false>(sums); }                              \
  target float Largest##name(const float* sums) { return BestOf<true>(sums); }                                \
  constexpr TileLoops kTileLoops##name = {AddSquares##name, AddProducts##name, AddRows##name, Smallest##name, \
                                          Largest##name};
// NOLINTEND(bugprone-macro-parentheses)

MAXSIM_TILE_LOOPS(Portable, )
#if defined(__x86_64__)
MAXSIM_TILE_LOOPS(Avx2, __attribute__((target("avx2"))))
MAXSIM_TILE_LOOPS(Avx512, __attribute__((target("avx512f"))))
#endif
#undef MAXSIM_TILE_LOOPS

}  // namespace

const TileLoops& BestTileLoops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kTileLoopsAvx512;
  if (__builtin_cpu_supports("avx2")) return kTileLoopsAvx2;
#endif
  return kTileLoopsPortable;
}

void FillTile(ScalarType type, const void* rows, size_t num_rows, size_t dim, size_t begin_column, size_t num_columns,
              float padding, float* tile) {
  constexpr size_t kPart = 64;  // columns that are widened at a time
  float widened[kPart];
  const size_t element = SizeOf(type);
  for (size_t row = 0; row < kTileRows; ++row) {
    if (row >= num_rows) {
      for (size_t column = 0; column < num_columns; ++column) tile[column * kTileRows + row] = padding;
      continue;
    }
    const char* const source = static_cast<const char*>(rows) + (row * dim + begin_column) * element;
    for (size_t begin = 0; begin < num_columns; begin += kPart) {
      const size_t count = num_columns - begin < kPart ? num_columns - begin : kPart;
      ConvertElements(type, source + begin * element, ScalarType::kF32, widened, count);
      for (size_t i = 0; i < count; ++i) tile[(begin + i) * kTileRows + row] = widened[i];
    }
  }
}

}  // namespace maxsim::library
