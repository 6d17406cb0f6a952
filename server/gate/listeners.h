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

// Binds to every address of the host, and listens. Port 0 picks a free port. A wildcard host means both IPv4 and IPv6
// if the machine has both. The sockets are non-blocking. Two servers never share a port. Returns UNAVAILABLE with the
// system's reason; the message names the port as `address`.
absl::StatusOr<TcpListeners> ListenOnTcp(const std::string& host, int port, const std::string& address);

// Binds to the path, and listens. Replaces a socket file on which no process listens. Returns UNAVAILABLE with the
// reason if that fails, for example because a server listens on the path or it is not a socket. If two processes
// replace the same file at the same time, both may succeed, and clients reach only the later one. The caller must
// remove the file at the end.
absl::StatusOr<OwnedFd> ListenOnUnixSocket(const std::string& path);

}  // namespace maxsim::gate
