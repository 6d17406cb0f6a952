// The interface through which a bootstrap reads the snapshots of other servers. Implemented in
// server/cluster/snapshot_client.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/admin.pb.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// A snapshot from another server. Its destructor ends the call. Not thread-safe.
class IncomingSnapshot {
 public:
  virtual ~IncomingSnapshot() = default;

  // Waits for the next message. Returns true with a message, false when the server has sent all messages, or an error
  // if the call failed or the connection was lost. Returns soon after the signal of OpenSnapshot is stopped, with the
  // signal's status. Must not be called again after false or an error.
  virtual absl::StatusOr<bool> Next(v1::ReadSnapshotResponse& message) = 0;
};

// Begins to read a snapshot of `collection` from the server at `address` (host:port). Does not wait for that server.
// `stop` may be null; it must outlive the result. The call's span becomes a child of `span`. Thread-safe.
using OpenSnapshot = std::function<absl::StatusOr<std::unique_ptr<IncomingSnapshot>>(
    const std::string& address, const std::string& collection, const tracing::SpanParent& span,
    const StopSignal* stop)>;

}  // namespace maxsim::service
