// Converts socket addresses to the names by which the gate compares clients.
#pragma once

#include <sys/socket.h>

#include "server/gate/gate_connections.h"

namespace maxsim::gate {

// Returns the client at an address, named as gRPC names it, and sets `port`. An IPv4 address that is mapped into IPv6
// is returned as IPv4. If the address is neither IPv4 nor IPv6, or has port 0, the result is empty and `port` is not
// set.
Peer PeerOf(const sockaddr_storage& address, int* port);

}  // namespace maxsim::gate
