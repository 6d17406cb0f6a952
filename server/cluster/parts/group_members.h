// Completes the groups of a request with group_by: several parts may have documents of one group. Pure: no network, no
// clock.
//
// Each part answers with its best n groups, where n is offset + top_k. Consider a group that is among the best n
// overall, and the part that holds its best document. Every group that ranks before it in that part also ranks before
// it overall, so the part's answer includes the group. The merged answers therefore have the right groups in the right
// order, and if the group size is 1, they are complete. But another part may have more documents of the group, and
// leave them out because it has n better groups. Such a part is asked again, for the chosen groups only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/parts/split.h"

namespace maxsim::cluster {

// One part's documents of the groups that were chosen for one query.
struct MembersRequest {
  size_t part_request = 0;  // index in SplitRequest::parts
  size_t sub_query = 0;     // in that part's request
  std::shared_ptr<const v1::RerankRequest> request;
};

// Returns the requests to the parts that must be asked again, in any order. `answers` has the answers of the split's
// parts; failed ones are skipped.
std::vector<MembersRequest> FindMissingMembers(const SplitRequest& split,
                                               std::vector<absl::StatusOr<v1::RerankResponse>>& answers);

// For each i, replaces one result in `answers` by the complete one in members[i], the answer to requests[i]. If
// members[i] failed, its status replaces the part's whole answer.
void ReplaceResults(const std::vector<MembersRequest>& requests,
                    std::vector<absl::StatusOr<v1::RerankResponse>> members,
                    std::vector<absl::StatusOr<v1::RerankResponse>>& answers);

}  // namespace maxsim::cluster
