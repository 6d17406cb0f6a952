// Compares searches with codes (short approximations of vectors) with exact searches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/evaluation/query_set.h"
#include "collection/evaluation/scored_collection.h"

namespace maxsim::evaluation {

struct CodesComparisonOptions {
  const QuerySet* queries = nullptr;
  int64_t sample = 0;       // number of queries to use, the first ones; 0 for all
  int32_t top_k = 100;      // 1 .. kMaxTopK
  int32_t num_refined = 0;  // number of documents to score exactly; 0 for DefaultRefinedDocuments(top_k)
  int num_threads = 1;      // number of scanning threads, at least 1
  // Called after each query; may be null. An error that it returns ends the comparison.
  std::function<absl::Status(int64_t done, int64_t total)> observer{};
};

// How searches with this number of planes (bits per value of the codes) agree with exact searches.
struct PlanesAgreement {
  int planes = 0;
  double mean_recall = 0;  // share of the exact top k that the search also returns, averaged over the queries
  double least_recall = 0;
  int64_t num_same = 0;    // queries with the same documents, in the same order
  int64_t num_proven = 0;  // queries for which a scan by upper bounds proves the top k
};

struct CodesComparison {
  int64_t num_queries = 0;
  int32_t top_k = 0;                    // or all documents if there are fewer
  int32_t num_refined = 0;              // or all documents if there are fewer
  std::vector<PlanesAgreement> planes;  // 1, 2 and 4, as far as they are stored
};

// Searches for each query once exactly, and once with each number of planes. A search with codes scans the codes of all
// documents, and then scores the best `num_refined` documents of the scan exactly. `exact` must have opened the same
// `folder`. Returns FAILED_PRECONDITION if the collection has no codes; INVALID_ARGUMENT if the queries have another
// dimension, or if num_refined is below top_k or above kMaxTopK; DATA_LOSS if a file of a shard is damaged.
absl::StatusOr<CodesComparison> CompareCodes(const std::string& folder, ScoredCollection& exact,
                                             const CodesComparisonOptions& options);

}  // namespace maxsim::evaluation
