// The address of the collector that spans are sent to.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::tracing {

struct Endpoint {
  std::string authority;  // host:port, with brackets around an IPv6 address
  bool is_tls = false;
};

// Parses host:port or http://host:port, which mean plain text, or https://host:port. Returns INVALID_ARGUMENT naming
// the value and what is accepted.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace maxsim::tracing
