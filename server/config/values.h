// Parses and formats configuration values: durations, addresses, devices (base/units.h has counts and sizes). Errors
// are INVALID_ARGUMENT with the value and what is accepted; the caller adds the key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace maxsim::config {

// Parses "true" or "false".
absl::StatusOr<bool> ParseBool(std::string_view text);

// Parses a number such as "0.25", which is finite and not negative.
absl::StatusOr<double> ParseNumber(std::string_view text);

// Parses durations such as "0", "250ms", "2s" and "1m30s". Returns INVALID_ARGUMENT for negative and infinite ones.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

// Parses a list of devices such as "0,2": numbers from 0 to kMaxDeviceNumber, each at most once. Returns an empty list
// for "all".
inline constexpr int kMaxDeviceNumber = 1023;
absl::StatusOr<std::vector<int>> ParseDevices(std::string_view text);
std::string FormatDevices(const std::vector<int>& numbers);

// The parts of "host:port" or "[v6]:port".
struct Address {
  std::string host;  // without brackets
  int port = 0;

  // Puts brackets around a host that contains a colon.
  std::string ToString() const;
};
absl::StatusOr<Address> ParseAddress(std::string_view text);

// Returns the element of `names` with the smallest edit distance to `name`, or "" if that distance is more than a third
// of the length of `name`, plus 1.
std::string Nearest(std::string_view name, const std::vector<std::string>& names);

}  // namespace maxsim::config
