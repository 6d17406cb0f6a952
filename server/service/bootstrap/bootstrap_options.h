// The parts outside of the service that bootstraps use: those of clients (Admin.BootstrapCollection),
// and those of servers that fill themselves.
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
  // Connects to other servers. Null if a bootstrap is not possible, because no stream orders this server's writes.
  OpenSnapshot open = nullptr;
  // Makes one collection of fetched snapshots; collection::AssembleLive if it is null. Tests replace it.
  std::function<absl::StatusOr<collection::Manifest>(const std::vector<std::string>& folders,
                                                     const collection::AssembleOptions& options)>
      assemble = nullptr;
  // Returns the addresses of the servers of this server's group, for `open`. This server may be one of them. May
  // resolve names, which takes seconds. Null if the configuration names none (cluster.peers).
  std::function<std::vector<std::string>()> peers = nullptr;
  // Asks the server at an address what it has. Blocks for some seconds at most. Must be set if `peers` is.
  std::function<absl::StatusOr<v1::GetInfoResponse>(const std::string& address)> info = nullptr;
  // Returns the URL of the newest backup of a collection in object storage; NOT_FOUND if it has none. Both functions
  // block, and end at most minutes after `stop` is stopped, if the store is silent. Null if the configuration names no
  // place for backups (cluster.backups).
  std::function<absl::StatusOr<std::string>(const std::string& collection, const StopSignal* stop)> find_backup =
      nullptr;
  // Fetches the parts of the backup at `url` that have some of the slots of `request`, whose `sources` it ignores. Must
  // be set if `find_backup` is.
  std::function<absl::StatusOr<FetchedSnapshots>(const std::string& url, const FetchRequest& request,
                                                 const StopSignal* stop)>
      fetch_backup = nullptr;
  // If errors keep the new collection from applying messages of its stream for this time, the bootstrap ends with the
  // error. A stream that was lost is usually back within seconds.
  absl::Duration max_stall = absl::Minutes(1);
};

}  // namespace maxsim::service
