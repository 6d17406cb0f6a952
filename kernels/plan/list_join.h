// Which candidate lists of a call to join: the lists' queries, stacked, are scored against the documents that any of
// them names, so that a document in several lists is read once, and each query takes the scores of its own list. Pure
// functions, tested without a GPU. Nothing here affects results.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace maxsim {

// Blocks of query rows (kernels/plan/score.h) of the lists that are joined, all together: with so many the tensor cores
// take about as long for a document as the memory does, so that a pair that no list asks for costs little. And lists,
// which bounds the room for their scores.
inline constexpr int64_t kJoinedBlocks = 4;
inline constexpr int64_t kMaxJoinedLists = 4;

// A list of candidates, by ordinal, and the blocks of the queries that score them.
struct CandidateList {
  absl::Span<const uint32_t> ordinals;
  int64_t num_blocks = 0;
};

struct ListJoin {
  std::vector<int32_t> lists;  // two at least
  int64_t num_blocks = 0;      // of their queries
  int64_t most = 0;            // documents that they name together at most: the sum of the lists
  int64_t expected = 0;        // the same, as estimated; no less than the longest list, whatever it repeats
};

// Puts lists together that have documents in common, greedily: each list is in one join at most, and lists without
// likeness stay out. How much they have in common is estimated from a sample of the ordinals, the same for all lists.
std::vector<ListJoin> FindJoins(absl::Span<const CandidateList> lists);

}  // namespace maxsim
