// The calls of a server to other servers of its cluster: reads snapshots of their collections (Admin.ReadSnapshot), and
// asks what they have (GetInfo).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "client/options.h"
#include "maxsim/v1/rerank.pb.h"
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

// Asks a server what it has, with a connection of its own. `options` as above. Blocks for at most 3 seconds; then, and
// if the server cannot be reached, returns UNAVAILABLE or DEADLINE_EXCEEDED.
absl::StatusOr<v1::GetInfoResponse> GetInfoOf(client::ClientOptions options);

}  // namespace maxsim::cluster
