// Tells clients apart, so that the queue can be fair to them.
#pragma once

#include <cstdint>
#include <string_view>

namespace maxsim::service {

// Returns a number for the calling client: from `value` if the client identifies itself by it, otherwise from its
// address `peer` ("10.0.0.7", "ipv4:10.0.0.7:4711", "ipv6:%5B::1%5D:4711", "unix:"), without the port. The numbers are
// valid in this process only.
uint64_t ClientOf(std::string_view value, std::string_view peer);

}  // namespace maxsim::service
