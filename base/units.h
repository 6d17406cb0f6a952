// Counts and sizes in bytes as text: Parse and Write are for configurations and command lines, and inverses, that is
// Parse(Write(x)) is x; Format is for messages and tables, and rounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim {

// Errors of Parse are INVALID_ARGUMENT with the value and what is accepted; the caller puts the key or the flag in
// front.

// Parses a whole number with an optional suffix: k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024).
absl::StatusOr<uint64_t> ParseCount(std::string_view text);
std::string WriteCount(uint64_t count);

// Parses a whole number of bytes, such as "512MiB", "4GB" or "1048576", also with a fraction ("1.5GiB").
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);
std::string WriteBytes(uint64_t bytes);

// Returns "1.50 GiB", or "312 B" below a KiB.
std::string FormatBytes(int64_t bytes);

// Returns "1.50 GiB (1,610,612,736 bytes)", or "312 bytes" below a KiB.
std::string FormatBytesExactly(uint64_t bytes);

// Returns "1,398".
std::string FormatCount(int64_t count);

}  // namespace maxsim
