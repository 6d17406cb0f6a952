// Counts and sizes as people write them in configurations and on command lines. Parse and Format are inverses:
// Parse(Format(x)) is x. Errors are INVALID_ARGUMENT with the value and what is accepted; the caller puts the key or
// the flag in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::units {

// A whole number with an optional suffix: k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024).
absl::StatusOr<uint64_t> ParseCount(std::string_view text);
std::string FormatCount(uint64_t count);

// A whole number of bytes: "512MiB", "4GB", "1048576", also with a fraction ("1.5GiB").
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);
std::string FormatBytes(uint64_t bytes);

}  // namespace maxsim::units
