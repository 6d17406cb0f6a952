// Helpers of the functions that read JSON values from the key-value store. They are pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace maxsim::live {

// Returns a parsed value as one short line for an error. A list or an object is only named as such: its text could be
// long, and nlohmann writes it with one recursion per level, so that 100,000 levels (200 KB) would overflow the stack.
std::string QuoteJson(const nlohmann::json& value);

// The member of an object that says which version of the value's format it has.
inline constexpr char kFormatVersionKey[] = "format_version";

// Returns INVALID_ARGUMENT if `value`, which must be an object, has another format version than `known`. A value
// without a version has version 1.
absl::Status CheckFormatVersion(const nlohmann::json& value, uint64_t known);

}  // namespace maxsim::live
