// Completes the groups of a request with group_by: several parts may have documents of one group. Pure: no network, no
// clock.
//
// Each part answers with its best n groups, n being offset + top_k. A group that is among the best n of all is among
// those of the part that has its best document: every group that ranks before it there ranks before it in all. So the
// merged answers have the right groups in the right order, and with a group size of 1 they are complete. But another
// part may have documents of such a group, and n better groups. It is asked again, for the chosen groups alone.
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

// Returns what parts are still to be asked, in any order. `answers` are those of the split's parts; the ones that
// failed are left alone.
std::vector<MembersRequest> FindMissingMembers(const SplitRequest& split,
                                               std::vector<absl::StatusOr<v1::RerankResponse>>& answers);

// Puts members[i], the answer to requests[i], in the place of the result in `answers` that it completes. If members[i]
// failed, its status replaces the part's whole answer.
void ReplaceResults(const std::vector<MembersRequest>& requests,
                    std::vector<absl::StatusOr<v1::RerankResponse>> members,
                    std::vector<absl::StatusOr<v1::RerankResponse>>& answers);

}  // namespace maxsim::cluster
