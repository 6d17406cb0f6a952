// Measures how rankings change when a collection is stored in another type, such as i8.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/evaluation/judgements.h"
#include "collection/evaluation/query_set.h"
#include "collection/evaluation/scored_collection.h"

namespace maxsim::evaluation {

// The overlap compares the first 100 documents of two rankings; nDCG is computed at 10.
inline constexpr int32_t kOverlapDepth = 100;
inline constexpr int kNdcgDepth = 10;

// Maximum number of documents whose scores are correlated. A larger collection is sampled at random.
inline constexpr int64_t kMaxCorrelated = kMaxTopK;

// A query that is made from a document has the document's first tokens, at most this number.
inline constexpr int64_t kDrawnQueryTokens = 32;

struct StorageComparisonOptions {
  // If null, queries are made from the first tokens of random documents of `before`, which must not be i8 then.
  const QuerySet* queries = nullptr;
  int64_t sample = 32;  // queries, drawn at random; 0: all of `queries`
  uint64_t seed = 0;    // of what is drawn
  // The ids of the queries, and their relevance judgements. Give both or neither.
  const std::vector<QueryText>* texts = nullptr;
  const Judgements* judgements = nullptr;
  // Called after each query; may be null. An error that it returns ends the comparison.
  std::function<absl::Status(int64_t done, int64_t total)> observer{};
};

struct StorageComparison {
  int64_t num_queries = 0;
  int64_t num_correlated = 0;  // documents
  double mean_spearman = 0;    // over the queries
  double least_spearman = 0;
  int32_t overlap_depth = 0;  // kOverlapDepth, or all documents where there are fewer
  double mean_overlap = 0;    // of the first overlap_depth documents, over the queries
  int64_t num_judged = 0;     // queries with a relevant document; if 0, the next two members mean nothing
  double ndcg_before = 0;     // at kNdcgDepth, over these queries
  double ndcg_after = 0;
};

// Ranks all documents of both collections for each query, and compares the rankings. Both must have the same documents
// in the same order. Returns FAILED_PRECONDITION if their numbers of documents or tokens, or their dimensions, differ;
// INVALID_ARGUMENT for queries of another dimension.
absl::StatusOr<StorageComparison> CompareStorage(ScoredCollection& before, ScoredCollection& after,
                                                 const StorageComparisonOptions& options);

}  // namespace maxsim::evaluation
