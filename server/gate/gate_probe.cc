#include "server/gate/gate_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/gate/owned_fd.h"
#include "server/gate/peer_address.h"

namespace maxsim::gate {

void GateProbe::SetAddress(const sockaddr_storage& address) {
  address_ = address;
  int port = 0;
  const Peer self = PeerOf(address, &port);
  const bool is_wildcard = self.host == "::" || self.host == "0.0.0.0";
  host_ = is_wildcard ? "127.0.0.1" : self.host;
}

bool GateProbe::IsItsConnection(const Peer& peer, int port) const {
  return port != 0 && port == port_ && peer.host == host_;
}

absl::Status GateProbe::Connect(absl::Duration limit) {
  const auto failed = [](const char* what) {
    return absl::UnavailableError(absl::StrCat("the gRPC port: ", what, ": ", std::strerror(errno)));
  };
  sockaddr_storage own = address_;
  auto& own_v6 = reinterpret_cast<sockaddr_in6&>(own);
  auto& own_v4 = reinterpret_cast<sockaddr_in&>(own);
  socklen_t size = sizeof(sockaddr_in);
  // If the gate listens on a wildcard address, connect to the loopback address.
  if (own.ss_family == AF_INET6) {
    size = sizeof(sockaddr_in6);
    if (IN6_IS_ADDR_UNSPECIFIED(&own_v6.sin6_addr)) inet_pton(AF_INET6, "::ffff:127.0.0.1", &own_v6.sin6_addr);
  } else if (own_v4.sin_addr.s_addr == htonl(INADDR_ANY)) {
    own_v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  // Bind to the address of the gate itself, by which it recognises the probe.
  sockaddr_storage from = own;
  reinterpret_cast<sockaddr_in&>(from).sin_port = 0;  // at the same place for both families
  const OwnedFd fd(socket(own.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return failed("no socket");
  const int both_families = 0;
  setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both_families, sizeof(both_families));
  sockaddr_storage bound{};
  socklen_t bound_size = sizeof(bound);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &bound_size) != 0) {
    return failed("no port to connect from");
  }
  int port = 0;
  PeerOf(bound, &port);
  port_ = port;
  absl::Status status;
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&own), size) != 0 && errno != EINPROGRESS) {
    status = failed("connect");
  } else {
    // The gate closes the probe's connection. The socket then becomes readable.
    pollfd closed{.fd = fd.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&closed, 1, static_cast<int>(absl::ToInt64Milliseconds(limit)));
    char byte = 0;
    if (ready == 0) {
      status = absl::UnavailableError("the gRPC port accepts no connection");
    } else if (ready < 0 || (recv(fd.get(), &byte, 1, 0) < 0 && errno != ECONNRESET)) {
      status = failed("probe");
    }
  }
  port_ = 0;
  return status;
}

}  // namespace maxsim::gate
