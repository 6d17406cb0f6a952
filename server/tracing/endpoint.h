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

// Parses the address of a collector. host:port and http://host:port mean plain text, https://host:port means TLS.
// Returns INVALID_ARGUMENT naming the value and what is accepted.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace maxsim::tracing
