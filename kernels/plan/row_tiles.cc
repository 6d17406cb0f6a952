#include "kernels/plan/row_tiles.h"
#include "kernels/plan/ceil_div.h"

namespace maxsim {
namespace {

// Cuts `num_query_tiles` query tiles into row tiles, and returns the time that these take, in units of half a row tile.
int64_t HalfTilesOf(int64_t num_query_tiles, ScoreTile tile) {
  const int64_t of_tile = TraitsOf(tile).query_tiles();
  if (tile != ScoreTile::kWide256) return 2 * CeilDiv(num_query_tiles, of_tile);
  return num_query_tiles / of_tile * 2 + CeilDiv(num_query_tiles % of_tile, kHalfTileQueryTiles);
}

}  // namespace

bool EndsInHalfTile(int64_t num_query_tiles, ScoreTile tile) {
  const int64_t last = num_query_tiles % TraitsOf(tile).query_tiles();
  return tile == ScoreTile::kWide256 && last > 0 && last <= kHalfTileQueryTiles;
}

int64_t CountHalfTiles(absl::Span<const QueryGroupShape> groups, ScoreTile tile) {
  int64_t tiles = 0;
  for (const QueryGroupShape& group : groups) tiles += EndsInHalfTile(QueryTilesOf(group, tile), tile) ? 1 : 0;
  return tiles;
}

int64_t RowTilesOf(const QueryGroupShape& group, ScoreTile tile) {
  return CeilDiv(QueryTilesOf(group, tile), TraitsOf(tile).query_tiles());
}

int64_t RowTiles(absl::Span<const QueryGroupShape> groups, ScoreTile tile) {
  int64_t tiles = 0;
  for (const QueryGroupShape& group : groups) tiles += RowTilesOf(group, tile);
  return tiles;
}

int64_t RowTileCandidates(absl::Span<const QueryGroupShape> groups, ScoreTile tile) {
  int64_t candidates = 0;
  for (const QueryGroupShape& group : groups) candidates += RowTilesOf(group, tile) * group.num_candidates;
  return candidates;
}

bool SharesQueryTiles(const QueryGroupShape& group, ScoreTile tile) {
  // Tails share query tiles if that saves at least this percentage of the row tiles. In measurements that saved 6 %,
  // short documents took up to 14 % longer. In those that saved 12 % or more, nothing took more than 5 % longer
  // (docs/lab/2026-11-24-kernels.md).
  constexpr int64_t kLeastSaved = 10;
  return MayShareQueryTiles(tile) && group.packed_query_tiles > 0 &&
         100 * HalfTilesOf(group.packed_query_tiles, tile) <=
             (100 - kLeastSaved) * HalfTilesOf(group.num_query_tiles, tile);
}

int64_t QueryTilesOf(const QueryGroupShape& group, ScoreTile tile) {
  return SharesQueryTiles(group, tile) ? group.packed_query_tiles : group.num_query_tiles;
}

}  // namespace maxsim
