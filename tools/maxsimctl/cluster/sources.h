// Chooses the servers from which another one gets the slots that it is to hold. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/maxsimctl/cluster/cluster_state.h"

namespace maxsim::ctl::cluster {

// Returns servers that together hold `slots`, in the order of the slots that they are for; unset if there are none.
// Chooses among those that answer and for which `may_read` returns true. For each slot prefers servers of `group` (the
// one that gets the slots), then those that are ready, then those that reach furthest, because each source sends all
// that it holds, so that few are better than many; then the smallest lag, and then the least bytes. Pointers are to
// members of `state`.
std::optional<std::vector<const ReplicaState*>> ChooseSources(const ClusterState& state, const std::string& group,
                                                              const collection::SlotRange& slots,
                                                              const std::function<bool(const ReplicaState&)>& may_read);

}  // namespace maxsim::ctl::cluster
