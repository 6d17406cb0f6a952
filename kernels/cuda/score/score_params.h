// The parameters that all scoring kernels have in common: plain structs that host and device code share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda {

inline constexpr int kMaxQueryTilesOfRowTile = 8;

// Maximum number of candidates in a pass (one launch). The Hopper kernels count them in 32 bits, and their claims may
// count past the last candidate.
inline constexpr int64_t kMaxPassCandidates = int64_t{1} << 31;

inline constexpr int kMaxQueriesOfQueryTile = kQueryTileTokens / kShortQueryTokens;

// Says where the sums of a query tile go: to element [offset + p] for the candidate at position p.
struct QueryTileOutput {
  // The offset into `partials` or `scores` of every query that has rows in the query tile.
  int64_t offsets[kMaxQueriesOfQueryTile];
  int32_t num_queries;  // 1, 2 or 4: of 32, 16 or 8 rows each; fewer may be there (offset -1)
  // 0: the sums are scores. 1: they are partial sums, which LaunchAddPartials adds up or picks from (PartialSums), and
  // p counts from the pass's first candidate.
  int32_t to_partials;
};

// A row tile has up to eight query tiles of 32 rows, which are scored against the same candidates.
struct RowTile {
  int64_t first_row;        // into query_rows and row_weights
  int64_t ordinals_begin;   // into `ordinals`; -1: the candidates are documents 0 .. num_candidates - 1
  int64_t num_candidates;   // of joined lists: set on the device
  int32_t num_query_tiles;  // 1 .. kMaxQueryTilesOfRowTile
  int32_t order_begin;      // the list's part of a CandidateOrder; the same in all row tiles of a list
  QueryTileOutput outputs[kMaxQueryTilesOfRowTile];

  // Returns whether a wide kernel gives the documents to its two warpgroups in turn.
  constexpr bool IsHalf() const { return num_query_tiles <= kHalfTileQueryTiles; }
};

// TokenMatch (kernels/maxsim.h) as the device writes it.
struct DeviceMatch {
  int32_t document_token;
  float similarity;
};

// The parameters of one launch that every scoring kernel gets. Each kernel has its own parameter struct that begins
// with these: see the params.h of its folder.
struct ScoreParams {
  const uint8_t* tokens;      // [offsets[num_documents], row_bytes] packed rows of the documents
  const int64_t* offsets;     // [num_documents + 1] in rows
  const float* scales;        // [num_documents] of quantised documents; else null
  const uint8_t* query_rows;  // [.., row_bytes], query tiles of 32 rows, absent rows zero; for a stream kernel tiles
                              // of [32, StreamQueryPitch(row_bytes)] in the order of StreamQueryOffset
  const float* row_weights;   // [..], zero for absent rows; quantised: weight times scale of the row
  const RowTile* row_tiles;   // [num_row_tiles]; not there in a single-launch call
  const uint32_t* ordinals;   // lists of candidates, in a single-launch call in pinned memory; may be null when every
                              // row tile takes all documents
  float* scores;              // output; null when matches are wanted
  float* partials;            // output of the query tiles of queries with several; null when there are none
  int64_t pass_first;         // the first of the `pass_count` candidates of every row tile that are scored
  int64_t pass_count;
  int32_t num_row_tiles;
  int32_t unused;
  int32_t row_bytes;  // multiple of 16
  int32_t num_steps;  // steps of 32 bytes in a row; one load of eight aligned bytes reads row_bytes too
};
static_assert(std::is_trivially_copyable_v<ScoreParams> && std::has_unique_object_representations_v<ScoreParams>);

// A query whose scores are computed from partial sums. Either it has several query tiles, whose sums are added in
// order, or its list was joined with others, and its candidates' sums are picked from those of the union.
struct PartialSums {
  int64_t partials_offset;  // of the first query tile; query tile b is at partials_offset + b * query_tile_stride
  int64_t query_tile_stride;
  int64_t scores_offset;
  int64_t num_candidates;
  int64_t num_query_tiles;
  int64_t ordinals_begin;  // where the query's own list begins
  int64_t words_begin;     // where its join's words begin, and the partial sums are those of the union; -1: no join
};

// Joined lists (kernels/plan/list_join.h) on the device. The documents that they name are marked, 32 to a word. A
// document's place in the union is `before` plus the number of documents marked before it in its word.
struct JoinWord {
  uint32_t marks;
  uint32_t before;  // documents of the union before the word's first
};

struct JoinedList {
  int64_t ordinals_begin;
  int64_t num_candidates;
  int64_t words_begin;  // of its join
};

struct JoinedUnion {
  int64_t words_begin;
  int64_t num_words;
  int64_t ordinals_begin;  // where the union goes, in no particular order
  int32_t first_row_tile;  // the row tiles that score the union: a kernel sets their num_candidates
  int32_t num_row_tiles;
};

}  // namespace maxsim::cuda
