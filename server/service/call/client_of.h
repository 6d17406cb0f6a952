// Tells clients apart, so that the queue can be fair to them.
#pragma once

#include <cstdint>
#include <string_view>

namespace maxsim::service {

// Returns a number that identifies the calling client. If the client sends a name (`value`), the number stands for the
// name, otherwise for the address `peer` ("10.0.0.7", "ipv4:10.0.0.7:4711", "ipv6:%5B::1%5D:4711", "unix:") without its
// port. The numbers differ from process to process.
uint64_t ClientOf(std::string_view value, std::string_view peer);

}  // namespace maxsim::service
