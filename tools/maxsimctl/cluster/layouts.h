// Makes the layouts that the commands of `maxsimctl cluster` ask for, from the present owners of the slots. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/maxsimctl/cluster/cluster_state.h"

namespace maxsim::ctl::cluster {

// Gives each group an equal range of slots, in this order: sizes differ by at most one slot. INVALID_ARGUMENT if there
// are no groups, more than slots, or one of them twice.
absl::StatusOr<Owners> EqualOwners(const std::vector<std::string>& groups);

// Returns equal ranges for the present groups and `group`. `position` counts the groups before it in the order of the
// slots; unset means that it comes last. If the group is an owner already, returns `owners` unchanged, so that a
// command which was interrupted can be run again. INVALID_ARGUMENT for a position beyond the number of groups, or if
// the group is an owner at another position.
absl::StatusOr<Owners> WithGroup(const Owners& owners, const std::string& group, std::optional<uint32_t> position);

// Returns equal ranges for the present groups without `group`. If the group is no owner, returns `owners` unchanged.
// INVALID_ARGUMENT if it is the only owner.
absl::StatusOr<Owners> WithoutGroup(const Owners& owners, const std::string& group);

// Moves slots from one group to another. The slots must lie at the border of the two groups, so that each group has one
// range afterwards too. If `to` has no slots yet, `slots` may be the beginning or the end of those of `from`. If `to`
// has all of the slots already, returns `owners` unchanged. INVALID_ARGUMENT, which says what is possible, for other
// slots, and if `from` would have none left.
absl::StatusOr<Owners> WithMovedSlots(const Owners& owners, const collection::SlotRange& slots, const std::string& from,
                                      const std::string& to);

}  // namespace maxsim::ctl::cluster
