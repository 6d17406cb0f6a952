// Counts documents of a collection, for Documents.Count and Documents.Facets. Also has what these share with
// Documents.Scroll.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// The default and the maximum of FacetsRequest.limit. A router adds up the counts of at most kMaxFacetValues values
// from each group. If each value has 512 bytes, a group sends 34 MB.
inline constexpr uint32_t kDefaultFacetValues = 10;
inline constexpr uint32_t kMaxFacetValues = 65'536;

// The maximum number of calls of Facets and Scroll that run at the same time, because each looks at all matching
// documents. Per million documents, a call of Facets keeps its thread for 2 to 5 ms if they share up to a thousand
// values, and for 50 ms if each has a value of its own. More calls would take the threads that answer other calls.
inline constexpr int kMaxWholePasses = 2;

// Limits calls of Facets and Scroll to `max_calls` at a time.
ConcurrencyLimit PassLimit(int max_calls);

// Sets the generation and the sequence of an answer.
template <typename Response>
void SetSnapshot(const store::Collection& collection, Response& response) {
  response.set_generation(static_cast<uint64_t>(collection.manifest().generation));
  response.set_sequence(collection.sequence());
}

// INVALID_ARGUMENT for a FacetsRequest.limit above kMaxFacetValues.
absl::Status CheckFacetsLimit(uint64_t limit);

// INVALID_ARGUMENT if the answer would be larger than limits.max_answer_bytes.
absl::Status CheckFacetsSize(const v1::FacetsResponse& response, const RequestLimits& limits);

// Answer a request from a snapshot of the collection. They call `check` now and then, and return its error. Other
// errors are INVALID_ARGUMENT about a field of the request, and those of CheckSequence and CheckGeneration.
absl::StatusOr<v1::CountResponse> CountDocuments(const v1::CountRequest& request, const store::Collection& collection,
                                                 const StopCheck& check);
absl::StatusOr<v1::FacetsResponse> CountFacetsOf(const v1::FacetsRequest& request, const store::Collection& collection,
                                                 const RequestLimits& limits, const StopCheck& check);

}  // namespace maxsim::service
