// Chooses the servers from which a server fetches the slots that it is to hold. A pure function: no network.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/maxsimctl/cluster/cluster_state.h"

namespace maxsim::ctl::cluster {

// Returns servers that together hold `slots`, in the order of their slots; unset if no such servers exist. Chooses only
// servers that answer and for which `may_read` returns true. For each slot not yet covered, takes the best server by,
// in this order: it is of `group` (the group that gets the slots); it is ready; it holds the most of the following
// slots, because few sources are better than many; the smallest lag; the fewest bytes. Pointers are to members of
// `state`.
std::optional<std::vector<const ReplicaState*>> ChooseSources(const ClusterState& state, const std::string& group,
                                                              const collection::SlotRange& slots,
                                                              const std::function<bool(const ReplicaState&)>& may_read);

}  // namespace maxsim::ctl::cluster
