// Changes collections on all servers of a cluster.
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

// The class is thread-safe. If a change fails on one server, the servers after it are not asked, the servers before it
// keep the change, and the error names the server that failed. The change may be repeated, because a server that has
// already made it counts as done. (A snapshot cannot be repeated, since its folder exists after the first try.)
class RouterCollections : public service::CollectionApi {
 public:
  // Both must outlive the object. Once `shutdown` is stopped, every change ends.
  RouterCollections(Membership* membership, const StopSignal* shutdown)
      : membership_(membership), shutdown_(shutdown) {}

  // Load, create and unload on every replica, one after the other. The path is used on each server's own machine.
  absl::StatusOr<v1::CollectionInfo> LoadForClient(const v1::LoadCollectionRequest& request,
                                                   const service::ChangeContext& context) override;
  absl::StatusOr<v1::CollectionInfo> CreateForClient(const v1::CreateCollectionRequest& request,
                                                     const service::ChangeContext& context) override;
  absl::Status Unload(const std::string& name, bool remove_settings, const service::ChangeContext& context) override;

  // Compacts on every replica, one after the other.
  absl::StatusOr<v1::CollectionInfo> Compact(const std::string& name, bool* changed,
                                             const service::ChangeContext& context) override;

  // As ReloadCluster does (changes/cluster_reload.h).
  absl::StatusOr<v1::ReloadCollectionResponse> Reload(const v1::ReloadCollectionRequest& request,
                                                      const service::ChangeContext& context) override;
  // Reloads every collection, each like Reload does, and logs the outcomes.
  void ReloadAll();

  // Copies the collection on one replica of each group: the first replica that answers. Returns the smallest of the
  // copies' sequences.
  absl::StatusOr<uint64_t> SnapshotForClient(const std::string& name, const std::string& path,
                                             const service::ChangeContext& context) override;

  // Sets the layout (which group owns which slots) at one server that follows the collection's stream. It then reaches
  // all servers. Returns INVALID_ARGUMENT if an owner is a group that this router does not know.
  absl::StatusOr<v1::SlotLayout> SetLayout(const v1::SetLayoutRequest& request,
                                           const service::ChangeContext& context) override;
  // A router has no collections of its own, so these return FAILED_PRECONDITION.
  absl::Status ReadSnapshot(const std::string& name, service::SnapshotSink sink,
                            const service::ChangeContext& context) override;
  absl::StatusOr<v1::BootstrapCollectionResponse> Bootstrap(const v1::BootstrapCollectionRequest& request,
                                                            const service::ChangeContext& context) override;

  std::vector<v1::CollectionInfo> List() const override;

 private:
  // Calls a method of all servers, one after the other, until one fails, and passes each answer to `seen`. The error
  // `done_before` means that a server had made the change already, and counts as a success. But if all servers return
  // this error, OnAll returns it. With kOk there is no such error.
  template <typename Request, typename Response>
  absl::Status OnAll(Rpc<Request, Response> rpc, const Request& request, const service::ChangeContext& context,
                     absl::StatusCode done_before, const std::function<void(const Response&)>& seen);
  // Calls the servers of one group as OnAll does. Returns the error `done_before` if one of them returned it. Sets
  // `has_done` if one of them made the change; otherwise leaves it as it is.
  template <typename Request, typename Response>
  absl::Status OnGroup(const Group& group, Rpc<Request, Response> rpc, const Request& request,
                       const service::ChangeContext& context, absl::StatusCode done_before,
                       const std::function<void(const Response&)>& seen, bool* has_done);
  absl::StatusOr<v1::CollectionInfo> InfoOf(const std::string& name);

  Membership* const membership_;
  const StopSignal* const shutdown_;
};

}  // namespace maxsim::cluster
