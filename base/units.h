// Counts and sizes in bytes as text. The Parse and Write functions are for configurations and command lines:
// Parse(Write(x)) is x. The Format functions are for messages and tables, and round.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim {

// The Parse functions return INVALID_ARGUMENT with the value and the accepted forms. The caller should prefix the
// message with the key or the flag.

// Parses a whole number with an optional suffix: k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024).
absl::StatusOr<uint64_t> ParseCount(std::string_view text);
std::string WriteCount(uint64_t count);

// Parses a size such as "512MiB", "4GB", "1.5GiB" or "1048576". The result must be a whole number of bytes.
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);
std::string WriteBytes(uint64_t bytes);

// Returns "1.50 GiB", or "312 B" below a KiB.
std::string FormatBytes(int64_t bytes);

// Returns "1.50 GiB (1,610,612,736 bytes)", or "312 bytes" below a KiB.
std::string FormatBytesExactly(uint64_t bytes);

// Returns "1,398".
std::string FormatCount(int64_t count);

}  // namespace maxsim
