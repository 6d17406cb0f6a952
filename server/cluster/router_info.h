// Describes a router's groups and replicas, in the answer to GetInfo and in the text of /readyz.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/view.h"

namespace maxsim::cluster {

// Returns whether at least one replica of the group answers polls.
bool Answers(const Group& group);

// Adds the groups and their replicas, as they are at `now`, a time of MonotonicNow().
void AddGroups(const View& view, absl::Time now, v1::GetInfoResponse& response);

// Returns a text for people, or "" if nothing is wrong. It has one line for each group and replica that does not
// answer; for each collection that is not served or lacks documents; for each replica that is left out (gets no
// requests for a collection); and for each group that the loss of one zone would take away (GroupsInOneZone).
std::string DescribeLosses(const View& view);

}  // namespace maxsim::cluster
