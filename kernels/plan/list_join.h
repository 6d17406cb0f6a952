// Chooses which candidate lists of a call to join. The queries of joined lists are stacked and scored against the union
// of the lists, so that a document in several lists is read once. Each query then takes the scores of the documents in
// its own list. The functions are pure and are tested without a GPU. Joins do not affect results.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace maxsim {

// kJoinedQueryTiles is the largest sum of query tiles (kernels/plan/row_tiles.h) over the lists of a join. With that
// many, multiplying a document takes about as long as reading it, so scoring a query against a document that is not in
// its list costs little extra. kMaxJoinedLists is the largest number of lists of a join, and bounds the memory for its
// scores.
inline constexpr int64_t kJoinedQueryTiles = 4;
inline constexpr int64_t kMaxJoinedLists = 4;

// A candidate list and the number of query tiles of the queries that score it.
struct CandidateList {
  absl::Span<const uint32_t> ordinals;
  int64_t num_query_tiles = 0;
};

// Lists that are scored as their union.
struct ListJoin {
  std::vector<int32_t> lists;   // indices of the lists, at least two
  int64_t num_query_tiles = 0;  // of the queries of all lists
  // The upper bound on the size of the union: the sum of the lists' lengths.
  int64_t most = 0;
  // The estimated size of the union. It is at least the length of the longest list, even if that list repeats
  // documents.
  int64_t expected = 0;
};

// Returns joins of lists that have documents in common. The search is greedy. A list is in at most one join, and in
// none if it has too few documents in common with the others. The overlap of two lists is estimated from a sample: the
// same ordinals are sampled in all lists.
std::vector<ListJoin> FindJoins(absl::Span<const CandidateList> lists);

}  // namespace maxsim
