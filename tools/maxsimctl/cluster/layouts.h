// Makes the layouts that the commands of `maxsimctl cluster` ask for, from the present owners of the slots. All
// functions are pure: no network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/maxsimctl/cluster/cluster_state.h"

namespace maxsim::ctl::cluster {

// Returns a layout in which each group has an equal range of slots, in the order of `groups`. Sizes differ by at most
// one slot. INVALID_ARGUMENT if `groups` is empty, is longer than the number of slots, or has a group twice.
absl::StatusOr<Owners> EqualOwners(const std::vector<std::string>& groups);

// Returns equal ranges for the present groups and `group`. `position` is the number of groups before the new one in the
// order of the slots; if unset, the new group comes last. If the group is an owner already, returns `owners` unchanged,
// so that an interrupted command can be run again. INVALID_ARGUMENT for a position beyond the number of groups, or if
// the group is an owner at another position.
absl::StatusOr<Owners> WithGroup(const Owners& owners, const std::string& group, std::optional<uint32_t> position);

// Returns equal ranges for the present groups without `group`. If the group is no owner, returns `owners` unchanged.
// INVALID_ARGUMENT if it is the only owner.
absl::StatusOr<Owners> WithoutGroup(const Owners& owners, const std::string& group);

// Moves slots from one group to another. The slots must lie at the border of the two groups, so that each group still
// has one range afterwards. If `to` has no slots yet, `slots` may be the beginning or the end of the range of `from`.
// If `to` has all of `slots` already, returns `owners` unchanged. INVALID_ARGUMENT for other slots, or if `from` would
// have none left; the message says which slots are possible.
absl::StatusOr<Owners> WithMovedSlots(const Owners& owners, const collection::SlotRange& slots, const std::string& from,
                                      const std::string& to);

}  // namespace maxsim::ctl::cluster
