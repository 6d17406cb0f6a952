// Loading, reloading and unloading collections, with what goes with it: the allowed folders and the metrics. The
// store logs the outcomes.
#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/metrics.h"
#include "server/store/collection_store.h"

namespace maxsim::rpc {

// Thread-safe. Calls block while shards load.
class CollectionAdmin {
 public:
  // All must outlive it.
  CollectionAdmin(store::CollectionStore* store, const store::DeviceSet* devices, Metrics* metrics,
                  std::vector<std::string> allowed_roots);

  // For collections of the configuration: any path.
  absl::StatusOr<v1::CollectionInfo> Load(const std::string& name, const std::string& path, store::Residency residency,
                                          store::Replication replication = store::Replication::kAuto);

  // For clients: PERMISSION_DENIED for every path that is not certain to lie, symbolic links resolved, under an allowed
  // root, so that nothing is learnt about other folders. The collection keeps the resolved path. Without `replicate` it
  // is copied to every device only where it is small (memory.replicate_below).
  absl::StatusOr<v1::CollectionInfo> LoadForClient(const std::string& name, const std::string& path,
                                                   const std::string& residency, bool replicate);

  // `changed` must not be null.
  absl::StatusOr<v1::CollectionInfo> Reload(const std::string& name, bool* changed);

  // Every collection, one after another; the outcome of each is logged, and the first error returned.
  absl::Status ReloadAll();

  absl::Status Unload(const std::string& name);

  std::vector<v1::CollectionInfo> List() const;

  // Sets the gauges of collections and memory from what is loaded now.
  void UpdateMetrics();

 private:
  // Counts a load or reload of a collection that is served now, and updates the gauges.
  void CountLoad(const std::string& name, bool ok, absl::Duration duration);
  absl::StatusOr<v1::CollectionInfo> Info(const std::string& name) const;
  bool IsAllowed(const std::filesystem::path& resolved) const;
  // The path without symbolic links.
  absl::StatusOr<std::string> ResolveAllowed(const std::string& path) const;

  store::CollectionStore* const store_;
  const store::DeviceSet* const devices_;
  Metrics* const metrics_;
  const std::vector<std::string> allowed_roots_;
  std::mutex metrics_mutex_;
  std::set<std::string> exported_;  // collections that have gauges; guarded by metrics_mutex_
};

}  // namespace maxsim::rpc
