// How many query rows a call stacks, and how many row tiles a tiling makes of them.
//
// A query's tokens are cut into *blocks* of 32 rows (the last one padded with zero rows). Queries that
// score the same documents form a *group*, and a group's blocks, stacked, are cut into *row tiles*: a row tile is what
// one thread block holds against the documents that it reads.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// Queries that score the same candidates.
struct ScoreGroup {
  int64_t num_blocks = 0;      // blocks of kBlockTokens rows, all queries together
  int64_t num_candidates = 0;  // documents each of them is scored against
  int64_t packed_blocks = 0;   // where short queries, and longer ones' ends, share blocks; 0: as many
};

// Whether the group's queries share blocks, where the tile lets them: not if that saves next to nothing, as blocks that
// are shared take longer to sum.
bool SharesBlocks(const ScoreGroup& group, ScoreTile tile);

// Blocks that the group's rows take on the tile.
int64_t BlocksOf(const ScoreGroup& group, ScoreTile tile);

// Row tiles of the group on the tile.
int64_t RowTilesOf(const ScoreGroup& group, ScoreTile tile);

// Row tiles of all groups on the tile.
int64_t RowTiles(absl::Span<const ScoreGroup> groups, ScoreTile tile);

// Candidates of all row tiles: each row tile reads every candidate of its group.
int64_t RowTileCandidates(absl::Span<const ScoreGroup> groups, ScoreTile tile);

// Whether the last of the row tiles of `num_blocks` blocks is a half one of a wide kernel (kHalfTileBlocks).
bool EndsInHalfTile(int64_t num_blocks, ScoreTile tile);

// Row tiles of all groups that are half ones of a wide kernel.
int64_t CountHalfTiles(absl::Span<const ScoreGroup> groups, ScoreTile tile);

}  // namespace maxsim
