// How many query rows a call stacks, and how many row tiles a tiling makes of them.
//
// A query's tokens are cut into *query tiles* of 32 rows (the last one padded with zero rows). Queries that score the
// same documents form a *query group*, whose query tiles, stacked, are cut into *row tiles*: a row tile is what one
// thread block holds against the documents that it reads.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// Queries that score the same candidates.
struct QueryGroup {
  int64_t num_query_tiles = 0;     // of kQueryTileTokens rows, all queries together
  int64_t num_candidates = 0;      // documents each of them is scored against
  int64_t packed_query_tiles = 0;  // where tails share query tiles; 0: as many
};

// Returns whether tails of the group's queries share query tiles, where the tiling lets them. They do not if that saves
// next to nothing, as shared query tiles take longer to sum.
bool SharesQueryTiles(const QueryGroup& group, ScoreTile tile);

// Returns the query tiles that the group's rows take on the tiling.
int64_t QueryTilesOf(const QueryGroup& group, ScoreTile tile);

// Returns the row tiles of the group on the tiling.
int64_t RowTilesOf(const QueryGroup& group, ScoreTile tile);

// Returns the row tiles of all groups on the tiling.
int64_t RowTiles(absl::Span<const QueryGroup> groups, ScoreTile tile);

// Returns the candidates of all row tiles: each row tile reads every candidate of its group.
int64_t RowTileCandidates(absl::Span<const QueryGroup> groups, ScoreTile tile);

// Returns whether the last of the row tiles of `num_query_tiles` query tiles is a half one (kHalfTileQueryTiles).
bool EndsInHalfTile(int64_t num_query_tiles, ScoreTile tile);

// Returns how many row tiles of all groups are half ones (kHalfTileQueryTiles).
int64_t CountHalfTiles(absl::Span<const QueryGroup> groups, ScoreTile tile);

}  // namespace maxsim
