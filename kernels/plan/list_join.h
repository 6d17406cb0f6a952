// Choosing which candidate lists of a call to join: the lists' queries, stacked, are scored against the documents that
// any of them names, so that a document in several lists is read once, and each query takes the scores of its own list.
// The functions are pure and tested without a GPU, and nothing here affects results.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace maxsim {

// The lists of a join have at most kJoinedQueryTiles query tiles (kernels/plan/row_tiles.h) together. With that many,
// the tensor cores take about as long for a document as the memory does, so a pair that no list asks for costs little.
// kMaxJoinedLists bounds the room for the scores of a join.
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
  // The most documents that the lists can name together: the sum of their lengths.
  int64_t most = 0;
  // The estimate of the number of documents that the lists name together. It is at least the length of the longest
  // list, even if that list repeats documents.
  int64_t expected = 0;
};

// Returns joins of lists that have documents in common. Lists are joined greedily: each list is in at most one join,
// and lists that resemble no other are in none. How much two lists have in common is estimated from a sample of the
// ordinals, which is the same for all lists.
std::vector<ListJoin> FindJoins(absl::Span<const CandidateList> lists);

}  // namespace maxsim
