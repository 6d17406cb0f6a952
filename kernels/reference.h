// MaxSim in FP64 by plain loops: the reference that every backend and every served answer is compared with.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim {

struct ReferenceScore {
  double score = 0;      // sum_i w_i * max_j <q_i, d_j>
  double magnitude = 0;  // sum_i |w_i| * max_j sum_k |q_ik * d_jk|: the scale that rounding errors are relative to
};

// Returns the scores of a query's candidates, in candidate order (query.ordinals, or every document if that is null).
// top_k is ignored. Uses every core for large inputs; each score is computed by one thread in a fixed order.
std::vector<ReferenceScore> ReferenceScores(const DocumentsView& documents, const Query& query);

struct ReferenceMatch {
  int32_t document_token = 0;  // index inside the document; of several tokens equal in FP64, the smallest index
  double similarity = 0;       // <q_i, d_j>, before the weight
};

// Returns, for each query token, which token of document `ordinal` it matches, [query.num_tokens].
std::vector<ReferenceMatch> ReferenceAlign(const DocumentsView& documents, const Query& query, uint32_t ordinal);

// Returns every similarity <q_i, d_j>, before the weight, of the query's tokens with those of document `ordinal`:
// [query.num_tokens, the document's tokens] row-major. A row's maximum is the similarity of ReferenceAlign. Runs on the
// calling thread only.
std::vector<double> ReferenceSimilarities(const DocumentsView& documents, const Query& query, uint32_t ordinal);

struct ReferenceHit {
  double score = 0;
  uint32_t position = 0;
};

// Returns the best k of `scores`, in rank order.
std::vector<ReferenceHit> ReferenceTopK(absl::Span<const ReferenceScore> scores, int32_t k);

}  // namespace maxsim
