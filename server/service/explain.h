// Explains a score: computes the similarity of every query token with every token of a stored document. The score uses
// the highest similarity of each query token. Explanations are for people who examine one answer. They are computed on
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

// The maximum number of similarities in one explanation. A million take about 10 MB as JSON and at most a second to
// compute.
inline constexpr int64_t kMaxExplainedPairs = int64_t{1} << 20;

// The maximum number of explanations at a time, to leave threads for others.
inline constexpr int kMaxExplanations = 2;

ConcurrencyLimit ExplanationLimit();

// Returns INVALID_ARGUMENT unless the request has exactly one query, with exactly one candidate, which is given by its
// id.
absl::Status CheckExplained(const v1::RerankRequest& request);

// Explains the score of the request's query, whose text has been encoded. If `limit` allows no more explanations at
// this time, returns RESOURCE_EXHAUSTED with RetryInfo. Other errors as in ExplainApi.
absl::StatusOr<v1::ExplainResponse> ComputeExplanation(const v1::RerankRequest& request,
                                                       const std::shared_ptr<const store::Collection>& collection,
                                                       const RequestLimits& limits, absl::Time deadline,
                                                       ConcurrencyLimit* limit);

}  // namespace maxsim::service
