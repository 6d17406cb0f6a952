// The address of a client whose connection is relayed (relayed_connection.h), as gRPC's peer() shows it. Pure.
#pragma once

#include <algorithm>
#include <string_view>

namespace maxsim::gate {

// A relayed client's peer() is this, its address with the port, a slash, and a number that no other connection has:
// "unix-abstract:maxsim-relay/192.0.2.7:51234/1-0".
inline constexpr std::string_view kRelayedPeerPrefix = "unix-abstract:maxsim-relay/";

// Returns the IP address in such a text, or "" if `peer` is not one.
inline std::string_view RelayedHost(std::string_view peer) {
  if (peer.substr(0, kRelayedPeerPrefix.size()) != kRelayedPeerPrefix) return {};
  peer.remove_prefix(kRelayedPeerPrefix.size());
  peer = peer.substr(0, peer.find('/'));
  return peer.substr(0, std::min(peer.rfind(':'), peer.size()));
}

}  // namespace maxsim::gate
