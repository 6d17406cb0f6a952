// Shape checks that every backend makes before it touches memory. Messages name the field, the value and the limit.
// ValidateDocuments is declared in kernels/maxsim.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim {

// Checks the shape of documents that will be appended: type, dimension, 1 .. kMaxShardDocuments documents, and no more
// tokens than those may have.
absl::Status ValidateAppendableShape(const AppendableShape& shape);

// Checks the documents of a view as ValidateDocuments does, and that they can be appended to `num_documents` documents
// of `num_tokens` tokens: INVALID_ARGUMENT for another type, dimension or rotation than the shape's, RESOURCE_EXHAUSTED
// when there is no room for all of them.
absl::Status ValidateAppend(const AppendableShape& shape, int64_t num_documents, int64_t num_tokens,
                            const DocumentsView& documents);

// Checks that rows `first_token` .. `first_token` + `num_rows` are among the `num_tokens` that were appended, and that
// there is somewhere to copy them to. INVALID_ARGUMENT if not.
absl::Status ValidateReadRows(int64_t num_tokens, int64_t first_token, int64_t num_rows, const void* rows);

// Checks one query of a TopK call against a set of `num_documents` documents: counts, top_k, pointers, weights, and
// every ordinal. `query_idx` is used in messages only. Returns INVALID_ARGUMENT for the first thing that is wrong.
absl::Status ValidateQuery(const Query& query, int64_t num_documents, int64_t query_idx);

// Checks documents that are passed to Stage: ValidateDocuments, and no residual codes.
absl::Status ValidateStaged(const DocumentsView& documents);

// Checks every query as ValidateQuery does, and that `num_results` is their number.
absl::Status ValidateTopKCall(absl::Span<const Query> queries, size_t num_results, int64_t num_documents);

// Checks the arguments of Align: the query's token count and pointer, the ordinals, and the size of the output.
absl::Status ValidateAlignCall(const Query& query, absl::Span<const uint32_t> ordinals, size_t num_matches,
                               int64_t num_documents);

}  // namespace maxsim
