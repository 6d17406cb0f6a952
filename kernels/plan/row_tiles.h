// Counts the query rows of a call, and the row tiles that a tiling cuts them into.
//
// A query's tokens are cut into *query tiles* of 32 rows (the last one padded with zero rows). Queries that score the
// same documents form a *query group*. The query tiles of a group are stacked and cut into *row tiles*. A thread block
// holds one row tile at a time and multiplies the documents that it reads with it.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// The shape of a query group: the counts that plans depend on.
struct QueryGroupShape {
  int64_t num_query_tiles = 0;  // of all queries of the group, if no tails share query tiles
  int64_t num_candidates = 0;   // documents that each query is scored against
  // The number of query tiles if tails (the last tokens of queries) share them. 0 means as many as num_query_tiles.
  int64_t packed_query_tiles = 0;
};

// Returns whether tails (the tokens of a query after its last full query tile) share query tiles on the tiling. Tails
// share query tiles if the tiling allows it and if that saves enough row tiles: shared query tiles take longer to sum.
bool SharesQueryTiles(const QueryGroupShape& group, ScoreTile tile);

// Returns the number of query tiles that the group's rows take on the tiling.
int64_t QueryTilesOf(const QueryGroupShape& group, ScoreTile tile);

// Returns the number of row tiles of the group on the tiling.
int64_t RowTilesOf(const QueryGroupShape& group, ScoreTile tile);

// Returns the number of row tiles of all groups on the tiling.
int64_t RowTiles(absl::Span<const QueryGroupShape> groups, ScoreTile tile);

// Returns the number of candidates, summed over all row tiles: each row tile reads every candidate of its group.
int64_t RowTileCandidates(absl::Span<const QueryGroupShape> groups, ScoreTile tile);

// Returns whether the last of the row tiles that `num_query_tiles` query tiles are cut into is a half row tile: one
// with at most kHalfTileQueryTiles query tiles.
bool EndsInHalfTile(int64_t num_query_tiles, ScoreTile tile);

// Returns how many row tiles of all groups are half row tiles (kHalfTileQueryTiles).
int64_t CountHalfTiles(absl::Span<const QueryGroupShape> groups, ScoreTile tile);

}  // namespace maxsim
