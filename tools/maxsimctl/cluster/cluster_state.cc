#include "tools/maxsimctl/cluster/cluster_state.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::FormatSlotRange;
using collection::kNumSlots;
using collection::SlotRange;

// For a collection without a layout: returns the slots that the group's servers hold. Unset if no server has the
// collection. FAILED_PRECONDITION if the servers hold different slots.
absl::StatusOr<std::optional<SlotRange>> HeldByAll(const GroupState& group) {
  const ReplicaState* first = nullptr;
  for (const ReplicaState& replica : group.replicas) {
    if (!replica.held.has_value()) continue;
    if (first == nullptr) first = &replica;
    if (replica.held == first->held) continue;
    return absl::FailedPreconditionError(Cat("the collection has no layout yet, and the servers of group ", group.name,
                                             " hold different slots: ", first->address, " holds ",
                                             FormatSlotRange(*first->held), ", ", replica.address, " holds ",
                                             FormatSlotRange(*replica.held)));
  }
  return first == nullptr ? std::nullopt : first->held;
}

}  // namespace

bool ReplicaState::Holds(const SlotRange& slots) const { return held.has_value() && Contains(*held, slots); }

const ReplicaState* GroupState::FindReplica(std::string_view address) const {
  const auto found = std::find_if(replicas.begin(), replicas.end(),
                                  [&](const ReplicaState& replica) { return replica.address == address; });
  return found == replicas.end() ? nullptr : &*found;
}

const GroupState* ClusterState::FindGroup(std::string_view name) const {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const GroupState& group) { return group.name == name; });
  return found == groups.end() ? nullptr : &*found;
}

bool Contains(const SlotRange& outer, const SlotRange& inner) {
  return outer.first <= inner.first && inner.end <= outer.end;
}

SlotRange Hull(const SlotRange& a, const SlotRange& b) { return {std::min(a.first, b.first), std::max(a.end, b.end)}; }

std::optional<SlotRange> SlotsOf(const Owners& owners, std::string_view group) {
  for (const Owner& owner : owners) {
    if (owner.group == group) return owner.slots;
  }
  return std::nullopt;
}

absl::Status CheckOwners(const Owners& owners) {
  std::set<std::string_view> groups;
  int32_t next = 0;
  for (const Owner& owner : owners) {
    if (owner.slots.first != next || owner.slots.end <= next || owner.slots.end > kNumSlots) {
      return absl::InternalError(Cat("the layout gives group ", Quote(owner.group), " the slots ", owner.slots.first,
                                     " up to ", owner.slots.end, "; must begin with slot ", next,
                                     " and end no later than ", kNumSlots));
    }
    if (!groups.insert(owner.group).second) {
      return absl::InternalError(Cat("the layout names group ", Quote(owner.group), " twice"));
    }
    next = owner.slots.end;
  }
  if (next == kNumSlots) return absl::OkStatus();
  return absl::InternalError(Cat("the layout ends before slot ", next, "; a collection has ", kNumSlots, " slots"));
}

absl::StatusOr<Owners> CurrentOwners(const ClusterState& state) {
  if (state.revision > 0) return state.owners;
  Owners owners;
  for (const GroupState& group : state.groups) {
    const absl::StatusOr<std::optional<SlotRange>> held = HeldByAll(group);
    if (!held.ok()) return held.status();
    if (held->has_value()) owners.push_back({.group = group.name, .slots = **held});
  }
  std::sort(owners.begin(), owners.end(), [](const Owner& a, const Owner& b) { return a.slots.first < b.slots.first; });
  int32_t next = 0;
  for (const Owner& owner : owners) {
    if (owner.slots.first != next) {
      return absl::FailedPreconditionError(Cat(
          "the collection has no layout yet, and ",
          owner.slots.first < next ? "more than one group holds" : "no group holds", " slot ",
          std::min(owner.slots.first, next), " (group ", owner.group, " holds ", FormatSlotRange(owner.slots), ")"));
    }
    next = owner.slots.end;
  }
  if (next == kNumSlots) return owners;
  return absl::FailedPreconditionError(Cat("the collection has no layout yet, and no group holds slot ", next));
}

std::string NameOf(const ReplicaState& replica, std::string_view group) {
  return Cat(replica.address, " (", group, ")");
}

}  // namespace maxsim::ctl::cluster
