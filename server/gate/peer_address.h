// Addresses of peers, as the gate compares and names them. Internal to server/gate.
#pragma once

#include <sys/socket.h>

#include "server/gate/gate_connections.h"

namespace maxsim::gate {

// Returns the peer at an address, named as gRPC names it; an IPv4 address within IPv6 is taken out of it. Sets `port`,
// but for an address that is neither IPv4 nor IPv6 or has port 0: the peer is then empty.
Peer PeerOf(const sockaddr_storage& address, int* port);

}  // namespace maxsim::gate
