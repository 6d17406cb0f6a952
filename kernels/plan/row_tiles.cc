#include "kernels/plan/row_tiles.h"
#include "kernels/plan/ceil_div.h"

namespace maxsim {
namespace {

// Time that the row tiles of so many blocks take, in units of half a row tile.
int64_t HalfTilesOf(int64_t blocks, ScoreTile tile) {
  const int64_t of_tile = TraitsOf(tile).blocks();
  if (tile != ScoreTile::kWide256) return 2 * CeilDiv(blocks, of_tile);
  return blocks / of_tile * 2 + CeilDiv(blocks % of_tile, kHalfTileBlocks);
}

}  // namespace

bool EndsInHalfTile(int64_t blocks, ScoreTile tile) {
  const int64_t last = blocks % TraitsOf(tile).blocks();
  return tile == ScoreTile::kWide256 && last > 0 && last <= kHalfTileBlocks;
}

int64_t CountHalfTiles(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  int64_t tiles = 0;
  for (const ScoreGroup& group : groups) tiles += EndsInHalfTile(BlocksOf(group, tile), tile) ? 1 : 0;
  return tiles;
}

int64_t RowTilesOf(const ScoreGroup& group, ScoreTile tile) {
  return CeilDiv(BlocksOf(group, tile), TraitsOf(tile).blocks());
}

int64_t RowTiles(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  int64_t tiles = 0;
  for (const ScoreGroup& group : groups) tiles += RowTilesOf(group, tile);
  return tiles;
}

int64_t RowTileCandidates(absl::Span<const ScoreGroup> groups, ScoreTile tile) {
  int64_t candidates = 0;
  for (const ScoreGroup& group : groups) candidates += RowTilesOf(group, tile) * group.num_candidates;
  return candidates;
}

bool SharesBlocks(const ScoreGroup& group, ScoreTile tile) {
  // Row tiles that it must save, in percent. Where it saved 6 %, short documents took up to 14 % longer; from 12 % on
  // nothing measured took more than 5 % longer (docs/performance/kernels.md).
  constexpr int64_t kLeastSaved = 10;
  return MayShareBlocks(tile) && group.packed_blocks > 0 &&
         100 * HalfTilesOf(group.packed_blocks, tile) <= (100 - kLeastSaved) * HalfTilesOf(group.num_blocks, tile);
}

int64_t BlocksOf(const ScoreGroup& group, ScoreTile tile) {
  return SharesBlocks(group, tile) ? group.packed_blocks : group.num_blocks;
}

}  // namespace maxsim
