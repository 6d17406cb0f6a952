// The layout of a live collection: which group of servers answers for which slots (docs/internals/cluster.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxsim::collection {

inline constexpr size_t kMaxSlotOwners = 1024;

// A group and the slots first_slot .. end_slot - 1 for which it answers. Not a SlotRange, because messages may have
// larger numbers, which CheckSlotOwners reports.
struct SlotOwner {
  std::string group;
  uint32_t first_slot = 0;
  uint32_t end_slot = 0;

  friend bool operator==(const SlotOwner&, const SlotOwner&) = default;
};

struct SlotLayout {
  uint64_t revision = 0;  // grows with each change of the layout; 1 or more
  std::vector<SlotOwner> owners;

  friend bool operator==(const SlotLayout&, const SlotLayout&) = default;
};

// A mistake in the owners of a layout (CheckSlotOwners).
struct SlotLayoutFault {
  std::string field;    // "owners[2].slots.end_slot"; also the place in JSON
  std::string problem;  // "is 5000; must be ...", so that "FIELD: PROBLEM" is a message
  // If the field breaks a limit: the largest accepted value, and the value.
  struct Limit {
    uint64_t max = 0;
    uint64_t value = 0;
  };
  std::optional<Limit> limit = {};
};

// Checks that there are 1 to kMaxSlotOwners owners, that their groups have valid names (IsGroupName) and differ, and
// that their ranges, in this order, cover all slots without gap or overlap. Returns the first fault, or nullopt.
std::optional<SlotLayoutFault> CheckSlotOwners(const std::vector<SlotOwner>& owners);

}  // namespace maxsim::collection
