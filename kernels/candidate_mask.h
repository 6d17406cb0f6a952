// Candidate lists that a backend may copy to the device as a bitmap (Query::mask).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/maxsim.h"

namespace maxsim {

// Lists with fewer candidates are always copied as lists.
inline constexpr int64_t kMinMaskedCandidates = int64_t{1} << 16;

// Returns the number of words of a bitmap of `num_documents` documents.
constexpr int64_t MaskWords(int64_t num_documents) { return (num_documents + 63) / 64; }

// Returns the bitmap that all of `queries` have, if it takes at most half of the bytes of their list and the list has
// at least kMinMaskedCandidates. Returns null in all other cases: the list must then be used.
const uint64_t* SharedMask(absl::Span<const Query> queries, int64_t num_documents);

// Checks that a query's bitmap has as many documents as the query has candidates, all of them below `num_documents`.
// INVALID_ARGUMENT, with `query_idx`, the value and the limit, if not. Does not compare the bitmap with the list.
absl::Status ValidateMask(const Query& query, int64_t num_documents, int64_t query_idx);

}  // namespace maxsim
