#include "tools/maxsimctl/cluster/layouts.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/text.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::FormatSlotRange;
using collection::kNumSlots;
using collection::SlotRange;

std::vector<std::string> GroupsOf(const Owners& owners) {
  std::vector<std::string> groups;
  groups.reserve(owners.size());
  for (const Owner& owner : owners) groups.push_back(owner.group);
  return groups;
}

Owners::const_iterator FindOwner(const Owners& owners, const std::string& group) {
  return std::find_if(owners.begin(), owners.end(), [&](const Owner& owner) { return owner.group == group; });
}

constexpr char kMoveAll[] = "; to move all of them, use remove-group or rebalance";

// Returns an error about slots that cannot be moved. `possible` says which can.
absl::Status NotMovable(const SlotRange& slots, const std::string& from, const std::string& to,
                        const std::string& possible) {
  return Invalid("slots ", FormatSlotRange(slots), " cannot move from group ", from, " to group ", to, ": ", possible);
}

}  // namespace

absl::StatusOr<Owners> EqualOwners(const std::vector<std::string>& groups) {
  if (groups.empty()) return Invalid("--groups: names no group");
  if (groups.size() > static_cast<size_t>(kNumSlots)) {
    return Invalid("--groups: ", groups.size(), " groups; at most ", kNumSlots, ", one for each slot");
  }
  std::set<std::string> seen;
  Owners owners;
  const auto count = static_cast<int32_t>(groups.size());
  for (int32_t i = 0; i < count; ++i) {
    const std::string& group = groups[static_cast<size_t>(i)];
    if (!seen.insert(group).second) return Invalid("--groups: names group ", Quote(group), " twice");
    owners.push_back({.group = group, .slots = collection::PartitionOf(i, count)});
  }
  return owners;
}

absl::StatusOr<Owners> WithGroup(const Owners& owners, const std::string& group, std::optional<uint32_t> position) {
  const auto found = FindOwner(owners, group);
  if (found != owners.end()) {
    const auto present = static_cast<uint32_t>(found - owners.begin());
    if (!position.has_value() || *position == present) return owners;
    return Invalid("--at: ", *position, ", but group ", Quote(group), " is at position ", present,
                   " already; to change the order, use rebalance --groups");
  }
  const auto last = static_cast<uint32_t>(owners.size());
  if (position.value_or(0) > last) return Invalid("--at: ", *position, "; must be 0 to ", last);
  std::vector<std::string> groups = GroupsOf(owners);
  groups.insert(groups.begin() + position.value_or(last), group);
  return EqualOwners(groups);
}

absl::StatusOr<Owners> WithoutGroup(const Owners& owners, const std::string& group) {
  const auto found = FindOwner(owners, group);
  if (found == owners.end()) return owners;
  if (owners.size() == 1) return Invalid("group ", Quote(group), " is the only one that answers for the collection");
  std::vector<std::string> groups = GroupsOf(owners);
  groups.erase(groups.begin() + (found - owners.begin()));
  return EqualOwners(groups);
}

absl::StatusOr<Owners> WithMovedSlots(const Owners& owners, const SlotRange& slots, const std::string& from,
                                      const std::string& to) {
  if (from == to) return Invalid("FROM and TO are both group ", Quote(from));
  const auto giver = FindOwner(owners, from);
  const auto taker = FindOwner(owners, to);
  if (taker != owners.end() && Contains(taker->slots, slots)) return owners;
  if (giver == owners.end()) return Invalid("FROM: group ", Quote(from), " answers for no slots");
  const SlotRange& had = giver->slots;
  const bool is_next = taker == std::next(giver);
  if (taker != owners.end() && !is_next && giver != std::next(taker)) {
    return NotMovable(slots, from, to,
                      Cat("they are not neighbours; ", from, " has ", FormatSlotRange(had), ", ", to, " has ",
                          FormatSlotRange(taker->slots)));
  }
  if (had.size() == 1) return NotMovable(slots, from, to, Cat(from, " has only slot ", had.first, kMoveAll));
  // Moved slots must border on the taker's range. may_end: they may be the end of the giver's range. may_begin: they
  // may be its beginning. If the taker has no slots, both are allowed.
  const bool may_end = taker == owners.end() || is_next;
  const bool may_begin = taker == owners.end() || !is_next;
  const bool at_end = may_end && slots.end == had.end && slots.first > had.first;
  const bool at_begin = may_begin && slots.first == had.first && slots.end < had.end;
  if (!at_end && !at_begin) {
    const std::string ending =
        Cat("a part of ", FormatSlotRange({had.first + 1, had.end}), " that ends with ", had.end - 1);
    const std::string beginning =
        Cat("a part of ", FormatSlotRange({had.first, had.end - 1}), " that begins with ", had.first);
    const std::string both = may_end && may_begin ? Cat(", or ", beginning) : std::string();
    return NotMovable(slots, from, to, Cat("possible is ", may_end ? ending : beginning, both, kMoveAll));
  }
  Owners moved = owners;
  Owner& left = moved[static_cast<size_t>(giver - owners.begin())];
  left.slots = at_end ? SlotRange{had.first, slots.first} : SlotRange{slots.end, had.end};
  if (taker != owners.end()) {
    Owner& grown = moved[static_cast<size_t>(taker - owners.begin())];
    grown.slots = Hull(grown.slots, slots);
  } else {
    moved.insert(moved.begin() + (giver - owners.begin()) + (at_end ? 1 : 0), {.group = to, .slots = slots});
  }
  return moved;
}

}  // namespace maxsim::ctl::cluster
