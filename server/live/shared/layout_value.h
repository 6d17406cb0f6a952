// The value of a layout's key in the key-value store: {"format_version": 1, "owners": [{"group": "g0", "slots":
// {"first_slot": 0, "end_slot": 2048}}, ...]}. A value without "format_version" has version 1. The functions are
// pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/slot_layout.h"

namespace maxsim::live {

// The maximum size of a value that is read. kMaxSlotOwners owners take at most 140 KiB.
inline constexpr size_t kMaxLayoutValueBytes = size_t{256} << 10;

// `owners` must be valid (CheckSlotOwners).
std::string FormatLayoutValue(const std::vector<collection::SlotOwner>& owners);

// Returns owners that are valid, or INVALID_ARGUMENT with the place, the value and what is accepted. Ignores members
// that it does not know.
absl::StatusOr<std::vector<collection::SlotOwner>> ParseLayoutValue(std::string_view value);

}  // namespace maxsim::live
