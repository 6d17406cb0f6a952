// RerankRequest -> engine::Job, and the job's result -> RerankResponse. Pure: no queue, no clock, no gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"
#include "server/rpc/candidates.h"
#include "server/rpc/limits.h"
#include "server/store/collection.h"

namespace maxsim::rpc {

// What the answer needs to know of its request once the job is on its way.
struct PendingAnswer {
  std::string request_id;
  std::shared_ptr<const store::Collection> collection;
  bool return_payloads = false;
  bool return_alignments = false;
  struct Query {
    std::shared_ptr<const ResolvedCandidates> candidates;
    int job_query =
        -1;  // index in Job::queries and in JobResult::queries; -1: no candidate is known, nothing is scored
  };
  std::vector<Query> queries;  // as in the request
};

struct Translated {
  std::unique_ptr<engine::Job> job;  // null when no query has anything to score
  PendingAnswer answer;
};

// What can be said without the collection: INVALID_ARGUMENT for a wrong request_id, query count, top_k or enum value,
// or no collection's name.
absl::Status CheckEnvelope(const v1::RerankRequest& request, const RequestLimits& limits);

// Checks everything else and converts. The job's deadline, cancellation and `done` are the caller's to set.
// INVALID_ARGUMENT naming field, value and limit; NOT_FOUND for unknown ids under MISSING_POLICY_FAIL.
absl::StatusOr<Translated> Translate(const v1::RerankRequest& request,
                                     std::shared_ptr<const store::Collection> collection, const RequestLimits& limits);

// Host memory that the job and what is kept for its answer hold, the request itself not counted.
uint64_t HeldBytes(const engine::Job& job, const PendingAnswer& answer);

// INVALID_ARGUMENT when the payloads that were asked for are more than limits.max_answer_payload_bytes.
absl::Status CheckAnswerSize(const PendingAnswer& answer, const engine::JobResult& result, const RequestLimits& limits);

// `result` is that of the job, or empty when there was none. Timings but total_us are filled in.
v1::RerankResponse BuildResponse(const PendingAnswer& answer, const engine::JobResult& result);

}  // namespace maxsim::rpc
