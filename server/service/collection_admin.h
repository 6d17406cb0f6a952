// Creates, loads, reloads, compacts, copies, bootstraps and unloads collections, checks the folders that clients name,
// and keeps the metrics up to date. The store logs the outcomes.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "collection/slots.h"
#include "maxsim/v1/admin.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/bootstrap/bootstrap_folders.h"
#include "server/service/bootstrap/bootstrap_options.h"
#include "server/service/bootstrap/bootstrap_plan.h"
#include "server/service/bootstrap/rank_peers.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/creation/created_collections.h"
#include "server/service/creation/held_names.h"
#include "server/service/live_room.h"
#include "server/store/collection_store.h"
#include "server/store/shared_settings.h"

namespace maxsim::service {

// Thread-safe. Calls block while shards load. When `stop` (an argument, or the context's; it may be null) is stopped,
// they end soon, with the status of `stop`.
class CollectionAdmin : public CollectionApi {
 public:
  // Maximum number of calls of ReadSnapshot at a time. Each takes bandwidth from searches, and keeps files on the disk
  // that a compaction has replaced meanwhile. A few are enough: only other servers of the group, and groups that get
  // some of its slots, read snapshots, one server after the other.
  static constexpr int kMaxSnapshotReads = 4;
  // How long clients that were refused should wait. A snapshot takes minutes, so trying again at once is of no use.
  static constexpr absl::Duration kSnapshotRetryDelay = absl::Seconds(10);

  // All must outlive it.
  CollectionAdmin(store::CollectionStore* store, const store::DeviceSet* devices, Metrics* metrics,
                  std::vector<std::string> allowed_roots);

  // Enables Bootstrap. Call it before the first call of a client.
  void SetBootstrap(BootstrapOptions options) { bootstrap_ = std::move(options); }

  // Sets the registry through which servers share the settings of created collections. Null if this server does not
  // share them. The registry must outlive the object. Call this before the first call of a client.
  void SetRegistry(store::SettingsRegistry* registry) { registry_ = registry; }

  // Ends CreateShared, bootstraps and calls of ReadSnapshot for good: running ones end soon with UNAVAILABLE, later
  // ones at once. Does not wait.
  void StopBootstraps() { stop_.Request(absl::StatusCode::kUnavailable); }

  // Loads a collection of the configuration, from any path: the generation that a reload has noted, if any, or else the
  // published one.
  absl::StatusOr<v1::CollectionInfo> Load(const std::string& name, const std::string& path, store::Residency residency,
                                          store::Replication replication = store::Replication::kAuto,
                                          bool live = false);

  // Loads a collection for a client. Returns PERMISSION_DENIED unless the path, with symbolic links resolved, is
  // certain to lie under an allowed root (a folder of store.allowed_roots), so that clients learn nothing about other
  // folders. The collection keeps the resolved path and the root. Its files are opened beneath that root, now and when
  // it is reloaded (Folder). Without `replicate` it is copied to every device only if it is small
  // (memory.replicate_below).
  absl::StatusOr<v1::CollectionInfo> LoadForClient(const v1::LoadCollectionRequest& request,
                                                   const ChangeContext& context) override;

  // Creates an empty live collection in a new folder, and loads it. The folder's parent, with symbolic links resolved,
  // must lie under an allowed root (a folder of store.allowed_roots). If the path is empty, the folder has the
  // collection's name and lies in the only allowed root. Errors as in admin.proto. If the collection cannot be loaded,
  // its folder is removed again. If there is a registry, first shares the collection's settings with the other servers.
  absl::StatusOr<v1::CollectionInfo> CreateForClient(const v1::CreateCollectionRequest& request,
                                                     const ChangeContext& context) override;

  // Makes this server's copy of a live collection of the cluster, with these slots, in the first allowed root. Lists it
  // among the created collections, and serves it once it has applied all messages of its stream. If the folder exists
  // and holds this collection, continues with that. Otherwise fetches a snapshot from another server of the group
  // (BootstrapOptions::peers). If none has the collection, fetches the newest backup (find_backup), or begins with an
  // empty collection, to which the stream brings all documents. May take hours. Until it succeeds, the collection is
  // not served, and List shows what it waits for, also after an error. Does nothing if the server has the collection,
  // is bootstrapping it, or may not create it (SettingsRegistry::MayCreate). One call at a time. There must be a
  // registry.
  //
  // Returns FAILED_PRECONDITION, with the reason, if the folder holds something else, if no allowed root exists, or if
  // the stream has dropped messages and no other server has the collection. Also returns errors of bootstraps, and of
  // creating and loading. The call can be repeated after any error, and after a crash.
  absl::Status CreateShared(const store::SharedSettings& settings, const collection::SlotRange& slots);

  // Removes from List a collection that CreateShared has not completed. Call it when the collection's settings are no
  // longer shared.
  void StopAwaiting(const std::string& name) { store_->StopAwaiting(name); }

  // Removes what bootstraps and snapshots of an earlier process have left under the allowed roots. Call it before the
  // first load.
  void RemoveLeftovers();

  // Loads the collections that clients have created or bootstrapped under the allowed roots, except those whose names
  // are already known. If a collection cannot be loaded, logs that, and List shows it with its error, unless its folder
  // does not exist.
  void LoadCreated();

  // Compacts a live collection. Sets `changed`, which must not be null, to false if there was nothing to compact.
  absl::StatusOr<v1::CollectionInfo> Compact(const std::string& name, bool* changed,
                                             const ChangeContext& context) override;

  // Copies a live collection to a new folder, whose parent must lie under an allowed root as in CreateForClient.
  // Returns the sequence (number) of the last write in the copy.
  absl::StatusOr<uint64_t> SnapshotForClient(const std::string& name, const std::string& path,
                                             const ChangeContext& context) override;

  // Checks the owners, and sets the layout (which group owns which slots) of a live collection whose writes a stream
  // orders. Ignores the context's `stop`, because this takes seconds at most.
  absl::StatusOr<v1::SlotLayout> SetLayout(const v1::SetLayoutRequest& request, const ChangeContext& context) override;
  // Sends a snapshot. Its files lie in a hidden folder in the collection's allowed root if that is on the same file
  // system, otherwise in the collection's folder. Returns RESOURCE_EXHAUSTED with RetryInfo while kMaxSnapshotReads
  // calls run.
  absl::Status ReadSnapshot(const std::string& name, SnapshotSink sink, const ChangeContext& context) override;

  // Makes the collection anew from snapshots of other servers. The new folder lies in the allowed root of the earlier
  // folder or, if there is none, in the first allowed root. Removes the earlier folder if it is in the list of created
  // collections, which means that the server made it, and not an operator.
  absl::StatusOr<v1::BootstrapCollectionResponse> Bootstrap(const v1::BootstrapCollectionRequest& request,
                                                            const ChangeContext& context) override;

  absl::StatusOr<v1::ReloadCollectionResponse> Reload(const v1::ReloadCollectionRequest& request,
                                                      const ChangeContext& context) override;

  // Reloads every collection to what is published, one after another. Collections that another call is loading right
  // now come last. Logs each outcome, and returns the first error.
  absl::Status ReloadAll();

  // Unloads a collection. With `remove_settings`, first removes its settings from the registry, even if this server
  // does not have the collection. If NATS then does not answer, returns UNAVAILABLE and unloads nothing; but if neither
  // this server nor the registry knows the name, returns NOT_FOUND. Waits while the collection is being created, and
  // ends a call of CreateShared for it. After a successful call, CreateShared does not create the collection again.
  absl::Status Unload(const std::string& name, bool remove_settings, const ChangeContext& context) override;

  std::vector<v1::CollectionInfo> List() const override;

  // Sets the gauges of collections and memory from what is loaded now.
  void UpdateMetrics();

 private:
  // Counts a load or reload if the collection is served now, and updates the gauges.
  void CountLoad(const std::string& name, bool ok, absl::Duration duration);
  absl::StatusOr<v1::CollectionInfo> Info(const std::string& name) const;
  // A folder that clients may load, without symbolic links, and its allowed root.
  struct Allowed {
    std::string path;
    std::string root;
  };
  absl::StatusOr<v1::CollectionInfo> LoadCounted(const store::LoadSpec& spec, const StopSignal* stop);
  // Loads a client's collection. If that fails, frees a name that was not in use.
  absl::StatusOr<v1::CollectionInfo> LoadNamed(const store::LoadSpec& spec, const StopSignal* stop);
  // Unloads a collection, and removes it from all lists of created collections.
  absl::Status Forget(const std::string& name, const StopSignal* stop);
  // Returns the allowed root in which `resolved` lies, or nullopt if there is none. Neither path has symbolic links.
  std::optional<std::string> RootOf(const std::filesystem::path& resolved) const;
  absl::StatusOr<Allowed> ResolveAllowed(const std::string& path) const;
  // Resolves the path of a new folder. Returns ALREADY_EXISTS if it exists.
  absl::StatusOr<Allowed> ResolveNew(const std::string& path) const;
  absl::Status CheckInNoCollection(const std::string& path, const std::filesystem::path& parent,
                                   const std::string& root) const;
  absl::Status CheckPath(const std::string& path) const;
  absl::Status NotAllowed(const std::string& path) const;
  bool IsKnown(const std::string& name) const;

  // Creating (collection_admin_creating.cc):
  absl::StatusOr<Allowed> ResolveCreated(const std::string& name, const std::string& path) const;
  absl::StatusOr<v1::CollectionInfo> MakeAndLoad(const store::SharedSettings& settings, const Allowed& folder,
                                                 const StopSignal* stop);
  absl::Status RemoveSettings(const std::string& name);

  // Filling (collection_admin_filling.cc):
  bool IsAwaited(const std::string& name) const;
  // Returns false if the shared collection is already in the folder.
  absl::StatusOr<bool> IsNewFolder(const store::SharedSettings& settings, const std::string& path,
                                   const collection::SlotRange& slots) const;
  absl::Status Fill(const store::SharedSettings& settings, const collection::SlotRange& slots, const StopSignal& stop);
  absl::StatusOr<RankedPeers> AskPeers(const std::string& name, const collection::SlotRange& slots,
                                       const StopSignal& stop) const;
  absl::StatusOr<bool> FillFromPeers(const store::SharedSettings& settings, const collection::SlotRange& slots,
                                     const StopSignal& stop, std::string& others);
  absl::StatusOr<bool> FillFromBackup(const store::SharedSettings& settings, const collection::SlotRange& slots,
                                      const StopSignal& stop, std::string& others);
  absl::Status FillFrom(const std::string& source, bool is_backup, const store::SharedSettings& settings,
                        const collection::SlotRange& slots, const StopSignal& stop);
  absl::Status FillFromStream(const store::SharedSettings& settings, const Allowed& folder, bool is_new,
                              const StopSignal& stop);
  absl::Status WaitForFill(const std::string& name, const StopSignal* stop) const;
  absl::Status EndFill(const std::string& name, const StopSignal* stop);

  // Snapshots and bootstraps (collection_admin_bootstrap.cc):
  absl::StatusOr<v1::SnapshotBegin> MakeSnapshot(const std::string& name, std::optional<RemovedAtEnd>& folder,
                                                 const StopSignal& stop) const;
  absl::StatusOr<BootstrapPlan> PlanBootstrap(const v1::BootstrapCollectionRequest& request) const;
  absl::StatusOr<BootstrapPlan> BeginBootstrap(const v1::BootstrapCollectionRequest& request, const StopSignal& stop);
  bool IsBootstrapping(const std::string& name) const;
  absl::Status CheckMayBootstrap(const std::string& name) const;
  absl::Status FindFolder(BootstrapPlan& plan) const;
  absl::StatusOr<v1::BootstrapCollectionResponse> RunBootstrap(const BootstrapPlan& plan, const ChangeContext& context);
  absl::StatusOr<v1::BootstrapCollectionResponse> CarryOut(const BootstrapPlan& plan, const ChangeContext& context);
  absl::Status Remember(const BootstrapPlan& plan, const std::string& path, bool* may_be_listed);
  std::string NewReadingFolder(const std::string& path) const;

  std::vector<std::string> Roots() const;  // the existing allowed roots, with symbolic links resolved

  store::CollectionStore* const store_;
  const store::DeviceSet* const devices_;
  Metrics* const metrics_;
  const std::vector<std::string> allowed_roots_;
  CreatedCollections created_;
  LiveRoom live_room_;
  BootstrapOptions bootstrap_;
  store::SettingsRegistry* registry_ = nullptr;  // may be null
  StopSignal stop_;
  ConcurrencyLimit snapshot_reads_;
  mutable Mutex bootstrap_mutex_;
  std::set<std::string> configured_ ABSL_GUARDED_BY(bootstrap_mutex_);  // names that the configuration has
  // Names that are being bootstrapped, or filled by CreateShared.
  std::set<std::string> running_ ABSL_GUARDED_BY(bootstrap_mutex_);
  std::string filling_ ABSL_GUARDED_BY(bootstrap_mutex_);                 // by CreateShared; "": none
  StopSignal* stop_filling_ ABSL_GUARDED_BY(bootstrap_mutex_) = nullptr;  // ends the call; null if there is none
  // For each collection, the URL of a backup that CreateShared has fetched and could not use, so that it is not fetched
  // again. Only CreateShared uses this.
  std::map<std::string, std::string> useless_backups_;
  HeldNames changing_;  // names that are being created or unloaded
  Mutex metrics_mutex_;
  std::set<std::string> exported_ ABSL_GUARDED_BY(metrics_mutex_);  // collections that have gauges
};

}  // namespace maxsim::service
