// Which candidate lists of a call to join: the lists' queries, stacked, are scored against the documents that any of
// them names, so that a document in several lists is read once, and each query takes the scores of its own list. Pure
// functions, tested without a GPU. Nothing here affects results.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace maxsim {

// The most query tiles (kernels/plan/row_tiles.h) of the lists that are joined, all together: with so many the tensor
// cores take about as long for a document as the memory does, so that a pair that no list asks for costs little. The
// most lists of a join bound the room for their scores.
inline constexpr int64_t kJoinedQueryTiles = 4;
inline constexpr int64_t kMaxJoinedLists = 4;

// A list of candidates, by ordinal, and the query tiles of the queries that score them.
struct CandidateList {
  absl::Span<const uint32_t> ordinals;
  int64_t num_query_tiles = 0;
};

struct ListJoin {
  std::vector<int32_t> lists;   // two at least
  int64_t num_query_tiles = 0;  // of their queries
  int64_t most = 0;             // documents that they name together at most: the sum of the lists
  int64_t expected =
      0;  // the documents that they name together, as estimated; no less than the longest list, whatever it repeats
};

// Puts lists together that have documents in common, greedily: each list is in one join at most, and lists without
// likeness stay out. How much they have in common is estimated from a sample of the ordinals, the same for all lists.
std::vector<ListJoin> FindJoins(absl::Span<const CandidateList> lists);

}  // namespace maxsim
