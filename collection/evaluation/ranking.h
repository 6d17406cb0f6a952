// Measures of a ranking's quality, from relevance judgements.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace maxsim::evaluation {

// The grade of each judged document id of one query. A document is relevant if its grade is more than 0.
using Grades = std::map<std::string, double>;

// Returns nDCG at k: the sum of grade / log2(rank + 1) over the first k documents, with ranks from 1, divided by the
// same sum for the best possible order of all judged documents. Grades below 0 count as 0. Returns 0 if no document is
// relevant.
double NdcgAt(absl::Span<const std::string> ranking, const Grades& grades, int k);

// Returns 1 / rank of the first relevant document; 0 if the first k have none.
double ReciprocalRankAt(absl::Span<const std::string> ranking, const Grades& grades, int k);

// Returns the share of all relevant documents that are among the first k; 0 if no document is relevant.
double RecallAt(absl::Span<const std::string> ranking, const Grades& grades, int k);

bool HasRelevant(const Grades& grades);

// Means over queries.
struct Quality {
  int64_t num_queries = 0;
  double ndcg = 0;             // at k
  double recall = 0;           // at k
  double recall_deep = 0;      // at the depth
  double reciprocal_rank = 0;  // at the depth

  // Adds one query; Mean divides the sums.
  void Add(absl::Span<const std::string> ranking, const Grades& grades, int k, int depth);
  // Adds the queries of another sum.
  void Add(const Quality& other);
  Quality Mean() const;
};

}  // namespace maxsim::evaluation
