// Explains a score: computes every similarity between a query's tokens and a stored document's tokens. The score uses
// the highest similarity of each query token. An explanation is for a person who examines one answer. It is computed on
// the CPU, outside the queue.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// The maximum number of similarities. That many make about 10 MB of JSON and take at most a second to compute.
inline constexpr int64_t kMaxExplainedPairs = int64_t{1} << 20;

// The maximum number of explanations at a time. More would take threads that read and write the bodies of rerank calls.
inline constexpr int kMaxExplanations = 2;

ConcurrencyLimit ExplanationLimit();

// Returns INVALID_ARGUMENT unless the request has one query, whose only candidate is a listed id.
absl::Status CheckExplained(const v1::RerankRequest& request);

// Explains the score of the request's query, whose text has been encoded. `limit` limits how many explanations are
// computed at a time: beyond it, returns RESOURCE_EXHAUSTED with RetryInfo. Other errors as in ExplainApi.
absl::StatusOr<v1::ExplainResponse> ComputeExplanation(const v1::RerankRequest& request,
                                                       const std::shared_ptr<const store::Collection>& collection,
                                                       const RequestLimits& limits, absl::Time deadline,
                                                       ConcurrencyLimit* limit);

}  // namespace maxsim::service
