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

// Binds and listens on every address of the host; port 0 takes a free one. A wildcard takes both IPv4 and IPv6 if the
// machine has both. The sockets do not block. Two servers never share a port. Returns UNAVAILABLE with the system's
// reason, in which `address` names the port.
absl::StatusOr<TcpListeners> ListenOnTcp(const std::string& host, int port, const std::string& address);

// Binds and listens on the path. Replaces a socket file that no process listens on. Returns UNAVAILABLE with the reason
// if that fails, for example because a server listens there or the path is not a socket. If two processes do this at
// once, both may take the same file for abandoned, and the later one wins. The caller must remove the file.
absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path);

}  // namespace maxsim::gate
