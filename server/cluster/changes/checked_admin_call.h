// Calls a method of one server's Admin service, and checks that the answer is about the right collection.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/groups/admin_call.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/check_info.h"
#include "server/cluster/parts/error_origin.h"
#include "server/observability/cluster_metrics.h"

namespace maxsim::cluster {

// Does what CallAdmin does. Returns INTERNAL if the answer is about another collection than the request. `metrics` may
// be null.
template <typename Request, typename Response>
absl::StatusOr<Response> CallChecked(const Group& group, const Replica& replica, Rpc<Request, Response> rpc,
                                     const Request& request, const service::ChangeContext& context,
                                     ClusterMetrics* metrics) {
  absl::StatusOr<Response> response = CallAdmin(group, replica, rpc, request, context);
  if constexpr (requires(const Response& answer) { answer.collection(); }) {
    if (!response.ok()) return response;
    const std::optional<AnswerFault> fault = CheckChangedCollection(request.name(), response->collection());
    if (fault.has_value()) return RefuseAnswer(group, replica, *fault, metrics);
  }
  return response;
}

// Returns "HOST:PORT of group NAME".
inline std::string ServerText(const Group& group, const Replica& replica) {
  return absl::StrCat(replica.target(), " of group ", group.name());
}

// Returns the error with a note that says which server of the cluster it comes from.
inline absl::Status OfServer(const Replica& replica, const Group& group, const absl::Status& status) {
  return WithOrigin(status, absl::StrCat("server ", ServerText(group, replica)));
}

}  // namespace maxsim::cluster
