// Where spans are sent.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::tracing {

struct Endpoint {
  std::string authority;  // host:port, with brackets around an IPv6 address
  bool is_tls = false;
};

// Reads host:port or http://host:port, in plain text, or https://host:port. INVALID_ARGUMENT names the value and what
// is accepted.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace maxsim::tracing
