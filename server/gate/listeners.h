// Opens the sockets that the gate listens on.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gate/owned_fd.h"

namespace maxsim::gate {

struct TcpListeners {
  std::vector<OwnedFd> sockets;  // one an address of the host
  int port = 0;
};

// Binds and listens on every address of the host; port 0 takes a free one. A wildcard takes IPv4 and IPv6 where the
// machine has both. The sockets do not block. Two servers never share a port. Fails with UNAVAILABLE, with the
// system's reason, and `address` as the name of it all.
absl::StatusOr<TcpListeners> ListenOnTcp(const std::string& host, int port, const std::string& address);

// Binds and listens on the path, and replaces a socket that nobody listens on. UNAVAILABLE with the system's reason, as
// when a server listens there or when the path is no socket's. Two processes that do this at once may both take a
// socket for an abandoned one, and the later has it. The caller removes the file.
absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path);

}  // namespace maxsim::gate
