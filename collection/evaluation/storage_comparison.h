// Measures how another storage type changes a collection's rankings.
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

// How many of the first documents of two rankings are compared, and the depth of nDCG.
inline constexpr int32_t kOverlapDepth = 100;
inline constexpr int kNdcgDepth = 10;

// Number of documents whose scores are correlated. A larger collection is sampled.
inline constexpr int64_t kMaxCorrelated = kMaxTopK;

// Maximum number of tokens in a query that is drawn from a document: the document's first ones.
inline constexpr int64_t kDrawnQueryTokens = 32;

struct StorageComparisonOptions {
  // If null, the queries are the first tokens of documents of the first collection. In this case the first collection
  // must not be i8.
  const QuerySet* queries = nullptr;
  int64_t sample = 32;  // queries, drawn at random; 0: all of `queries`
  uint64_t seed = 0;    // of what is drawn
  // The ids of the queries, and their relevance judgements. Give both or neither.
  const std::vector<QueryText>* texts = nullptr;
  const Judgements* judgements = nullptr;
  // The observer is called after some queries, and an error ends the comparison. It may be null.
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

// Ranks all documents of both collections for each query. They must hold the same documents in the same order:
// FAILED_PRECONDITION if their numbers of documents or dimensions differ. INVALID_ARGUMENT for queries of another
// dimension.
absl::StatusOr<StorageComparison> CompareStorage(ScoredCollection& before, ScoredCollection& after,
                                                 const StorageComparisonOptions& options);

}  // namespace maxsim::evaluation
