// Translates a RerankRequest into an engine::Job, and collects what its answer will need (PendingAnswer). Uses no
// queue, no clock and no gRPC.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"
#include "server/service/call/limits.h"
#include "server/service/request/answer.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Returns whether all candidates of every query are inline documents.
bool HasInlineDocumentsAlone(const v1::RerankRequest& request);

struct Translated {
  std::unique_ptr<engine::Job> job;  // null when no query has anything to score
  PendingAnswer answer;
};

// Returns OK if a collection has reached RerankRequest.min_sequence, that is, has applied this write; 0 accepts any
// state. Otherwise returns UNAVAILABLE with RetryInfo, or INVALID_ARGUMENT if the collection is not live.
absl::Status CheckSequence(uint64_t min_sequence, const store::Collection& collection);

// Return OK if a collection is of RerankRequest.generation (version); 0 accepts any. Return FAILED_PRECONDITION if it
// is of another generation, INVALID_ARGUMENT if it is live.
absl::Status CheckGeneration(uint64_t generation, const store::Collection& collection);
absl::Status CheckGeneration(uint64_t generation, const std::string& collection, bool is_live, uint64_t served);

// Checks the request's min_sequence and generation.
template <typename Request>
absl::Status CheckSnapshotFor(const Request& request, const store::Collection& collection) {
  if (absl::Status status = CheckSequence(request.min_sequence(), collection); !status.ok()) return status;
  return CheckGeneration(request.generation(), collection);
}

// Returns the query's own candidates if it has some, else the request's.
const v1::Candidates& CandidatesOf(const v1::RerankRequest& request, const v1::Query& query);

// Checks everything that can be checked without the collection. Returns INVALID_ARGUMENT for a wrong request_id, number
// of queries, page (CheckPage), enum value, payload field or refinement, for a malformed filter, and for a filter
// together with inline documents. The collection's name may be empty only if all candidates are inline documents and no
// generation is given.
absl::Status CheckEnvelope(const v1::RerankRequest& request, const RequestLimits& limits);

// Checks everything else in a request that has passed CheckEnvelope, and converts it. The caller sets the job's
// deadline, cancellation and `done`. Returns INVALID_ARGUMENT naming field, value and limit; NOT_FOUND for unknown ids
// under MISSING_POLICY_FAIL; the errors of CheckSequence and CheckGeneration; and the error of `check` (may be null),
// which it calls now and then while it evaluates a filter.
absl::StatusOr<Translated> Translate(const v1::RerankRequest& request,
                                     std::shared_ptr<const store::Collection> collection, const RequestLimits& limits,
                                     const StopCheck& check = nullptr);

}  // namespace maxsim::service
