// Merges the answers of the groups into the one that a single server would give. Pure: no network, no clock.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/split.h"
#include "server/cluster/view.h"
#include "server/service/limits.h"

namespace maxsim::cluster {

// Returns whether a part's error means that its group is lost, so that the request's policy decides, rather than that
// the request is wrong or has no time left.
bool IsLost(const absl::Status& status);

// Merges the parts' answers, [split.parts], in the one rank order: score descending, then position ascending. Each
// answer must have passed CheckRerankAnswer (check_rerank.h).
// `collection` is that of SplitRerank. Timings are the longest of the parts'; total_us and encode_us are left to the
// caller. INVALID_ARGUMENT and others as the first part said that has such an error, in terms of the client's request;
// UNAVAILABLE where a group is lost and the request fails for that, or all are; NOT_FOUND for unknown ids where the
// request fails for them; INVALID_ARGUMENT where the answer passes limits.max_answer_bytes.
absl::StatusOr<v1::RerankResponse> MergeRerank(const SplitRequest& split, const CollectionView* collection,
                                               std::vector<absl::StatusOr<v1::RerankResponse>> answers,
                                               const service::RequestLimits& limits);

}  // namespace maxsim::cluster
