// Checks, by connecting to it, that the gate's own port accepts connections. Internal to server/gate.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/gate/gate_connections.h"

namespace maxsim::gate {

// Connect may be called on any thread, one call at a time, while the gate's thread calls IsItsConnection. SetAddress
// must be called before both.
class GateProbe {
 public:
  // Sets the address that the gate listens on.
  void SetAddress(const sockaddr_storage& address);

  // Connects to the gate, and waits up to `limit` until the gate has accepted the connection and closed it. UNAVAILABLE
  // if it does not.
  absl::Status Connect(absl::Duration limit);

  // Returns whether an accepted connection from `peer` and its `port` is the probe's own. The gate must then close it,
  // which is what Connect waits for.
  bool IsItsConnection(const Peer& peer, int port) const;

 private:
  sockaddr_storage address_{};  // what Connect connects to, and from where
  std::string host_;
  std::atomic<int> port_{0};  // from which Connect connects; 0 while there is none
};

}  // namespace maxsim::gate
