// Checks that the gate's port accepts connections, by connecting to it.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/gate/gate_connections.h"

namespace maxsim::gate {

// Call SetAddress first. Connect may be called on any thread, but only on one at a time. Meanwhile the gate's thread
// calls IsItsConnection.
class GateProbe {
 public:
  // Sets the address that the gate listens on.
  void SetAddress(const sockaddr_storage& address);

  // Connects to the gate, and waits until the gate has accepted the connection and closed it. Returns UNAVAILABLE if
  // this takes longer than `limit`.
  absl::Status Connect(absl::Duration limit);

  // Returns whether an accepted connection from `peer` and its `port` comes from this probe. If so, the gate must close
  // the connection, because Connect waits for that.
  bool IsItsConnection(const Peer& peer, int port) const;

 private:
  sockaddr_storage address_{};  // the address that Connect connects to, and also binds to
  std::string host_;
  std::atomic<int> port_{0};  // the port from which Connect is connected; 0 while it is not
};

}  // namespace maxsim::gate
