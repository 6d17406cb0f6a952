// Carries out changes of collections on all servers of a cluster.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "server/cluster/groups/admin_call.h"
#include "server/cluster/groups/membership.h"
#include "server/service/api.h"

namespace maxsim::cluster {

// The class is thread-safe. A change that fails on a server ends there: what was done on others stays, and the error
// names the server. It may be repeated: servers that have done it count as done. (A snapshot cannot, since its folder
// is there then.)
class RouterCollections : public service::CollectionApi {
 public:
  // Both must outlive it. Once `shutdown` is stopped, every change is.
  RouterCollections(Membership* membership, const StopSignal* shutdown)
      : membership_(membership), shutdown_(shutdown) {}

  // Load, create and unload on every replica, one after the other: a path is that on each server's machine.
  absl::StatusOr<v1::CollectionInfo> LoadForClient(const v1::LoadCollectionRequest& request,
                                                   const service::ChangeContext& context) override;
  absl::StatusOr<v1::CollectionInfo> CreateForClient(const v1::CreateCollectionRequest& request,
                                                     const service::ChangeContext& context) override;
  absl::Status Unload(const std::string& name, const service::ChangeContext& context) override;

  // Compacts on every replica, one after the other.
  absl::StatusOr<v1::CollectionInfo> Compact(const std::string& name, bool* changed,
                                             const service::ChangeContext& context) override;

  // Reloads in two waves, each server of a wave after the other: first one half of the replicas of each group, rounded
  // up but never all of several, then the rest. Requests go on with the generation before until every group has a
  // replica with the next, and then with that, so that no answer mixes two and every group serves all the while.
  // (Groups of one replica have one wave, and between the first reload and the last answer UNAVAILABLE.)
  absl::StatusOr<v1::CollectionInfo> Reload(const std::string& name, bool* changed,
                                            const service::ChangeContext& context) override;
  // Does so for every collection; outcomes are logged.
  void ReloadAll();

  // Copies on the first replica of each group that answers. Returns the smallest of their sequences.
  absl::StatusOr<uint64_t> SnapshotForClient(const std::string& name, const std::string& path,
                                             const service::ChangeContext& context) override;

  std::vector<v1::CollectionInfo> List() const override;

 private:
  // Calls a method of all servers, one after the other, until one fails, and gives `seen` each answer. A server that
  // says `done_before` has done it before; where all say so, that is an error.
  template <typename Request, typename Response>
  absl::Status OnAll(Rpc<Request, Response> rpc, const Request& request, const service::ChangeContext& context,
                     absl::StatusCode done_before, const std::function<void(const Response&)>& seen);
  // Calls a method of one server. Returns INTERNAL if the answer is about another collection.
  template <typename Request, typename Response>
  absl::StatusOr<Response> CallChecked(const Group& group, const Replica& replica, Rpc<Request, Response> rpc,
                                       const Request& request, const service::ChangeContext& context);
  absl::StatusOr<v1::CollectionInfo> InfoOf(const std::string& name);

  Membership* const membership_;
  const StopSignal* const shutdown_;
};

}  // namespace maxsim::cluster
