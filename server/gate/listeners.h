// Opens the sockets that the gate listens on.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/gate/owned_fd.h"

namespace maxsim::gate {

struct TcpListeners {
  std::vector<OwnedFd> sockets;  // one per address of the host
  int port = 0;
};

// Binds and listens on every address of the host. Port 0 picks a free port. A wildcard host means both IPv4 and IPv6 if
// the machine has both. The sockets are non-blocking. Two servers never share a port. Returns UNAVAILABLE with the
// system's reason, in which `address` names the port.
absl::StatusOr<TcpListeners> ListenOnTcp(const std::string& host, int port, const std::string& address);

// Binds and listens on the path. Replaces a socket file that no process listens on. Returns UNAVAILABLE with the reason
// if that fails, for example because a server listens there or the path is not a socket. If two processes do this at
// the same time, both may think that the same file is abandoned; the later one then gets the path. The caller must
// remove the file at the end.
absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path);

}  // namespace maxsim::gate
