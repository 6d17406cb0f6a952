// Shape checks that every backend makes before it touches memory. Messages name the field, the value and the limit.
// ValidateDocuments is declared in kernels/maxsim.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim {

// Checks one query of a TopK call against a set of `num_documents` documents: counts, top_k, pointers, weights, and
// every ordinal. `query_idx` is used in messages only. Returns INVALID_ARGUMENT for the first thing that is wrong.
absl::Status ValidateQuery(const Query& query, int64_t num_documents, int64_t query_idx);

// Checks every query as ValidateQuery does, and that `num_results` is their number.
absl::Status ValidateTopKCall(absl::Span<const Query> queries, size_t num_results, int64_t num_documents);

// Checks the arguments of Align: the query's token count and pointer, the ordinals, and the size of the output.
absl::Status ValidateAlignCall(const Query& query, absl::Span<const uint32_t> ordinals, size_t num_matches,
                               int64_t num_documents);

}  // namespace maxsim
