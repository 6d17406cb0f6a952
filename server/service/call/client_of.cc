#include "server/service/call/client_of.h"

#include <algorithm>
#include <functional>

#include "server/gate/relayed_peer.h"

namespace maxsim::service {

uint64_t ClientOf(std::string_view value, std::string_view peer) {
  // Makes a name and an address differ, even if they are the same text.
  constexpr uint64_t kNamed = 0x9e3779b97f4a7c15u;
  const std::hash<std::string_view> hash;
  if (!value.empty()) return hash(value) ^ kNamed;
  if (peer.substr(0, 5) == "ipv4:" || peer.substr(0, 5) == "ipv6:") {
    peer = peer.substr(5, std::max<size_t>(peer.rfind(':'), 5) - 5);
    // gRPC writes the brackets of an IPv6 address as %5B and %5D. Remove them.
    if (peer.size() > 6 && peer.substr(0, 3) == "%5B") peer = peer.substr(3, peer.size() - 6);
  }
  if (const std::string_view relayed = gate::RelayedHost(peer); !relayed.empty()) peer = relayed;
  return hash(peer);
}

}  // namespace maxsim::service
