// Reads snapshots of collections from other servers (Admin.ReadSnapshot).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "client/options.h"
#include "server/service/bootstrap/snapshot_source.h"
#include "server/tracing/span.h"

namespace maxsim::cluster {

// Begins the call, with a connection of its own. `options` has the server's address as its target, and the token and
// the certificates; its deadlines and retries have no effect. Meets the contract of service::OpenSnapshot. A server
// that does not answer pings for half a minute counts as lost: the call then ends with UNAVAILABLE. Returns the errors
// of client::MakeChannels.
absl::StatusOr<std::unique_ptr<service::IncomingSnapshot>> ReadSnapshotOf(client::ClientOptions options,
                                                                          const std::string& collection,
                                                                          const tracing::SpanParent& span,
                                                                          const StopSignal* stop);

}  // namespace maxsim::cluster
