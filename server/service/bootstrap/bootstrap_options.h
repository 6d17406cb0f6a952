// Functions outside of the service that bootstraps call. A bootstrap makes this server's copy of a live collection from
// snapshots of other servers or from a backup. A client asks for it (Admin.BootstrapCollection), or the server begins
// it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collection/manifest.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/bootstrap/fetch_snapshots.h"
#include "server/service/bootstrap/snapshot_source.h"

namespace maxsim::collection {
struct AssembleOptions;
}  // namespace maxsim::collection

namespace maxsim::service {

struct BootstrapOptions {
  // Connects to other servers. Null if a bootstrap is not possible, because no stream (NATS) orders this server's
  // writes.
  OpenSnapshot open = nullptr;
  // Replaces collection::AssembleLive in tests. Otherwise null.
  std::function<absl::StatusOr<collection::Manifest>(const std::vector<std::string>& folders,
                                                     const collection::AssembleOptions& options)>
      assemble = nullptr;
  // Returns the addresses of the servers of this server's group, for `open`. This server may be one of them. May
  // resolve names, which takes seconds. Null if cluster.peers names none.
  std::function<std::vector<std::string>()> peers = nullptr;
  // Asks a server what it has. Blocks for seconds. Must be set if `peers` is.
  std::function<absl::StatusOr<v1::GetInfoResponse>(const std::string& address)> info = nullptr;
  // Returns the URL of the newest backup of a collection in object storage; NOT_FOUND if there is none. Null if the
  // configuration has no cluster.backups. find_backup and fetch_backup block; after `stop` is stopped, they end within
  // minutes, even if the storage does not answer.
  std::function<absl::StatusOr<std::string>(const std::string& collection, const StopSignal* stop)> find_backup =
      nullptr;
  // Fetches the parts of the backup at `url` that have some of the slots of `request`. Ignores the `sources` of
  // `request`. Must be set if `find_backup` is set.
  std::function<absl::StatusOr<FetchedSnapshots>(const std::string& url, const FetchRequest& request,
                                                 const StopSignal* stop)>
      fetch_backup = nullptr;
  // If errors keep the new collection from applying messages of its stream for this time, the bootstrap ends with the
  // error. A stream that was lost is usually back within seconds.
  absl::Duration max_stall = absl::Minutes(1);
};

}  // namespace maxsim::service
