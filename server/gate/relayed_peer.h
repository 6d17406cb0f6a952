// Finds the address of a client whose connection is relayed (relayed_connection.h) in the name that gRPC's peer()
// returns.
#pragma once

#include <algorithm>
#include <string_view>

namespace maxsim::gate {

// peer() returns for a relayed client this prefix, the client's address and port, a slash, and a unique text:
// "unix-abstract:maxsim-relay/192.0.2.7:51234/1-0".
inline constexpr std::string_view kRelayedPeerPrefix = "unix-abstract:maxsim-relay/";

// Returns the IP address of a relayed client, or "" for any other `peer`.
inline std::string_view RelayedHost(std::string_view peer) {
  if (peer.substr(0, kRelayedPeerPrefix.size()) != kRelayedPeerPrefix) return {};
  peer.remove_prefix(kRelayedPeerPrefix.size());
  peer = peer.substr(0, peer.find('/'));
  return peer.substr(0, std::min(peer.rfind(':'), peer.size()));
}

}  // namespace maxsim::gate
