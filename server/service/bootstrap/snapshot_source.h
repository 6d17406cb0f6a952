// The interface through which a bootstrap reads the snapshots of other servers. server/cluster/snapshot_client.h
// implements it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/admin.pb.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// A snapshot that another server sends. Destroying the object ends the call. Not thread-safe.
class IncomingSnapshot {
 public:
  virtual ~IncomingSnapshot() = default;

  // Waits for the next message. Returns false when the server has sent all messages, and the error if the call failed,
  // or if the connection was lost. Returns soon after the signal of OpenSnapshot is stopped, with its status. Must not
  // be called again after it returned false or an error.
  virtual absl::StatusOr<bool> Next(v1::ReadSnapshotResponse& message) = 0;
};

// Begins to read a snapshot of `collection` from the server at `address` (host:port). Does not wait for the server.
// `stop` may be null; it must outlive the result. The call's span becomes a child of `span`. Thread-safe.
using OpenSnapshot = std::function<absl::StatusOr<std::unique_ptr<IncomingSnapshot>>(
    const std::string& address, const std::string& collection, const tracing::SpanParent& span,
    const StopSignal* stop)>;

}  // namespace maxsim::service
