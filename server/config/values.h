// Text of configuration values: sizes, durations, counts, addresses. Parse and Format are inverses: Parse(Format(x))
// is x. Errors are INVALID_ARGUMENT with the value and what is accepted; the caller puts the key in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace maxsim::config {

// "true" or "false".
absl::StatusOr<bool> ParseBool(std::string_view text);

// A whole number with an optional suffix: k M G T (powers of 1000) or Ki Mi Gi Ti (powers of 1024).
absl::StatusOr<uint64_t> ParseCount(std::string_view text);
std::string FormatCount(uint64_t count);

// A whole number of bytes: "512MiB", "4GB", "1048576", also with a fraction ("1.5GiB").
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);
std::string FormatBytes(uint64_t bytes);

// "0", "250ms", "2s", "1m30s"; never negative, never infinite.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

// Numbers of devices, 0 to kMaxDeviceNumber, each once, with commas between them; "all" is none.
inline constexpr int kMaxDeviceNumber = 1023;
absl::StatusOr<std::vector<int>> ParseDevices(std::string_view text);
std::string FormatDevices(const std::vector<int>& numbers);

// "host:port" or "[v6]:port".
struct Address {
  std::string host;  // without brackets
  int port = 0;

  // With brackets around a host that holds a colon.
  std::string ToString() const;
};
absl::StatusOr<Address> ParseAddress(std::string_view text);

// The one of `names` with the smallest edit distance to `name`, or "" when none is near (more than a third of its
// letters away).
std::string Nearest(std::string_view name, const std::vector<std::string>& names);

}  // namespace maxsim::config
