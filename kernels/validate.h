// Shape checks that every backend makes before it touches memory. Messages name the field, the value and the limit.
// ValidateDocuments is declared in kernels/maxsim.h.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim {

// Checks the shape of documents that will be appended: the type, the dimension, that max_documents is 1 ..
// kMaxShardDocuments, and that max_tokens is not more than max_documents documents may have.
absl::Status ValidateAppendableShape(const AppendableShape& shape);

// Checks the documents of a view as ValidateDocuments does, and that they can be appended to `num_documents` documents
// with `num_tokens` tokens in all. Returns INVALID_ARGUMENT if their type, dimension or rotation is not the shape's,
// and RESOURCE_EXHAUSTED if there is not enough room for all of them.
absl::Status ValidateAppend(const AppendableShape& shape, int64_t num_documents, int64_t num_tokens,
                            const DocumentsView& documents);

// Checks the arguments of ReadRows: `num_rows` rows from `first_token` on must be among the `num_tokens` appended
// tokens, and `rows` must point to memory. Returns INVALID_ARGUMENT if not.
absl::Status ValidateReadRows(int64_t num_tokens, int64_t first_token, int64_t num_rows, const void* rows);

// Checks one query of a TopK call against a set of `num_documents` documents: counts, top_k, pointers, weights, and
// every ordinal. `query_idx` is used in messages only. Returns INVALID_ARGUMENT for the first error that it finds.
absl::Status ValidateQuery(const Query& query, int64_t num_documents, int64_t query_idx);

// Checks documents that are passed to Stage: makes the checks of ValidateDocuments, and refuses residual codes.
absl::Status ValidateStaged(const DocumentsView& documents);

// The candidates that a backend reads: always the lists, or, where SharedMask returns one, the bitmap.
enum class CandidateForm : uint8_t { kList, kSharedMask };

// Checks every query as ValidateQuery does, and that `num_results` equals the number of queries. With kSharedMask,
// checks the bitmap instead of the list where SharedMask (kernels/candidate_mask.h) returns one.
absl::Status ValidateTopKCall(absl::Span<const Query> queries, size_t num_results, int64_t num_documents,
                              CandidateForm form = CandidateForm::kList);

// Checks the arguments of Align: the query's token count and pointer, the ordinals, and the size of the output.
absl::Status ValidateAlignCall(const Query& query, absl::Span<const uint32_t> ordinals, size_t num_matches,
                               int64_t num_documents);

}  // namespace maxsim
