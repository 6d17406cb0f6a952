// Who counts as one client in the queue.
#pragma once

#include <cstdint>
#include <string_view>

namespace maxsim::service {

// Returns a number for the client that calls: from `value` where a client names itself by it, else from its address
// `peer` ("10.0.0.7", "ipv4:10.0.0.7:4711", "ipv6:%5B::1%5D:4711", "unix:"), port left out. The numbers are of this
// process.
uint64_t ClientOf(std::string_view value, std::string_view peer);

}  // namespace maxsim::service
