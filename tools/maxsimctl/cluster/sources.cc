#include "tools/maxsimctl/cluster/sources.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace maxsim::ctl::cluster {
namespace {

// Sorts sources for one slot, the best one first.
auto SourceRank(const ReplicaState& replica, bool is_own_group, int32_t end) {
  return std::make_tuple(!is_own_group, !replica.is_ready, -std::min(replica.held->end, end), replica.lag,
                         replica.num_bytes);
}

}  // namespace

std::optional<std::vector<const ReplicaState*>> ChooseSources(
    const ClusterState& state, const std::string& group, const collection::SlotRange& slots,
    const std::function<bool(const ReplicaState&)>& may_read) {
  std::vector<const ReplicaState*> chosen;
  for (int32_t slot = slots.first; slot < slots.end; slot = chosen.back()->held->end) {
    const ReplicaState* best = nullptr;
    bool best_is_own = false;
    for (const GroupState& holder : state.groups) {
      const bool is_own = holder.name == group;
      for (const ReplicaState& replica : holder.replicas) {
        if (!replica.answers() || !replica.held.has_value() || !replica.held->contains(slot)) continue;
        if (!may_read(replica)) continue;
        if (best != nullptr && SourceRank(*best, best_is_own, slots.end) <= SourceRank(replica, is_own, slots.end)) {
          continue;
        }
        best = &replica;
        best_is_own = is_own;
      }
    }
    if (best == nullptr) return std::nullopt;
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace maxsim::ctl::cluster
