// Faults in the answers of a group's servers. A router checks every answer before it uses it, as a server checks a
// request: a replica may be broken, run another version, or not be one of our servers at all.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/replica.h"
#include "server/observability/cluster_metrics.h"

namespace maxsim::cluster {

struct AnswerFault {
  const char* field = "";  // name of a field; also a metric's label, so one of a few constants
  std::string message;     // names the place, the value and the limit: "results[0].scores[3] is nan, and ..."
};

// Checks an answer; returns nullopt if it is right. Several attempts of one call may run the check at the same time,
// even after the call has ended, so the check must own the data that it reads. It may throw std::bad_alloc.
template <typename Response>
using AnswerCheck = std::function<std::optional<AnswerFault>(const Response& answer)>;

// Converts the error of a replica, and makes its message valid UTF-8, because clients get the message in a protobuf
// message.
absl::Status ErrorOfReplica(const grpc::Status& status);

// Counts a fault and logs it, at most one line per second. Returns INTERNAL. The caller uses this as the replica's
// error, and so may send the call to another replica. `metrics` may be null.
absl::Status RefuseAnswer(const Group& group, const Replica& replica, const AnswerFault& fault,
                          ClusterMetrics* metrics);

}  // namespace maxsim::cluster
