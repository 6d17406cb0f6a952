#include "kernels/cuda/codes/fragments.h"

#include <cstddef>

namespace maxsim::cuda {
namespace {

constexpr int32_t kLanes = 32;
constexpr int32_t kRegisters = 4;

// Returns a row's offset (ScanRow): what must be added to kProductScale times the product to get <Q, L>, the inner
// product of the query's integers Q and a code's levels L (kernels/codes/query_codes.h). With one plane, <Q, L> is
// twice the product of the windows minus the sum of Q. With four planes, a level is 2 * operand + 1, so <Q, L> is twice
// the product plus the sum of Q.
int32_t OffsetOf(const QueryCodes& query, int32_t token) {
  if (query.planes == 1) return -query.weight_sums[static_cast<size_t>(token)];
  return query.planes == 4 ? query.weight_sums[static_cast<size_t>(token)] : 0;
}

// Writes the fragments of a tile: `elements` has its `num_rows` rows, of CodeColumns(dim) bytes each.
void PackTile(int32_t dim, int planes, const int8_t* elements, int32_t num_rows, uint32_t* fragments) {
  const int32_t columns = CodeColumns(dim), num_steps = ScanSteps(dim);
  for (int32_t step = 0; step < num_steps; ++step) {
    for (int32_t lane = 0; lane < kLanes; ++lane) {
      for (int32_t reg = 0; reg < kRegisters; ++reg) {
        const int32_t row = lane / 4 + reg % 2 * 8;
        uint32_t word = 0;
        for (int32_t byte = 0; row < num_rows && byte < 4; ++byte) {
          const int32_t column = StepColumn(dim, planes, step, lane % 4, reg / 2, byte);
          const auto element = static_cast<uint8_t>(elements[static_cast<size_t>(row) * columns + column]);
          word |= uint32_t{element} << (8 * byte);
        }
        fragments[(static_cast<size_t>(step) * kLanes + lane) * kRegisters + reg] = word;
      }
    }
  }
}

}  // namespace

PackedQueries PackQueries(absl::Span<const QueryCodes* const> queries) {
  PackedQueries packed;
  int32_t num_tiles = 0;
  for (const QueryCodes* query : queries) num_tiles += RowTiles(*query);
  num_tiles += num_tiles % 2;  // A tile of zeros belongs to the first query, and adds nothing to it.
  const int32_t dim = queries[0]->shape.dim;
  const size_t tile_words = static_cast<size_t>(ScanSteps(dim)) * kLanes * kRegisters;
  packed.fragments.resize(static_cast<size_t>(num_tiles) * tile_words);
  packed.rows.resize(static_cast<size_t>(num_tiles) * kScanTileRows);
  packed.tile_queries.resize(static_cast<size_t>(num_tiles));
  size_t tile = 0;
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    const QueryCodes& query = *queries[idx];
    for (int32_t first = 0; first < query.num_tokens; first += kScanTileRows, ++tile) {
      const int32_t num_rows = query.num_tokens - first < kScanTileRows ? query.num_tokens - first : kScanTileRows;
      PackTile(dim, query.planes, query.elements.data() + static_cast<size_t>(first) * CodeColumns(dim), num_rows,
               packed.fragments.data() + tile * tile_words);
      packed.tile_queries[tile] = static_cast<int32_t>(idx);
      for (int32_t row = 0; row < num_rows; ++row) {
        packed.rows[tile * kScanTileRows + row] = {OffsetOf(query, first + row), query.multipliers[first + row]};
      }
    }
  }
  return packed;
}

}  // namespace maxsim::cuda
