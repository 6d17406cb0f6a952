// Merges the answers of the groups into the one that a single server would give. Pure: no network, no clock.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/parts/split.h"
#include "server/service/call/limits.h"

namespace maxsim::cluster {

// Returns whether a part's error means that its group is lost: the group did not answer, or not in time, or its servers
// have another generation or other slots. The request's policy then decides what happens. Other errors mean that the
// request is wrong.
bool IsLost(const absl::Status& status);

// Merges the answers of the parts into one in rank order (kernels/rank_order.h). answers[i] is that of split.parts[i],
// and must have passed CheckRerankAnswer (check_rerank.h). `collection` is the one passed to SplitRerank. Each timing
// is the longest of the parts; the caller sets total_us and encode_us.
//
// Returns an error about the request (such as INVALID_ARGUMENT) if a part reported one, translated to the client's
// request; UNAVAILABLE or DEADLINE_EXCEEDED if all groups are lost, or if one is lost and the request's policy is to
// fail (the code of the first lost group, DEADLINE_EXCEEDED if that did not answer in time); NOT_FOUND if ids are
// unknown and the request's policy is to fail; INVALID_ARGUMENT if the answer exceeds limits.max_answer_bytes.
absl::StatusOr<v1::RerankResponse> MergeRerank(const SplitRequest& split, const CollectionView* collection,
                                               std::vector<absl::StatusOr<v1::RerankResponse>> answers,
                                               const service::RequestLimits& limits);

}  // namespace maxsim::cluster
