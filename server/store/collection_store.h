// The collections a server holds, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "collection/slots.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

class FileLedger;
class FilterCache;
class MemoryLedger;
struct LoadRequest;

// The cache of filters takes at most this share of a configured budget: an eighth.
inline constexpr uint64_t kFilterCacheShare = 8;

struct StoreOptions {
  // Bounds the bytes of all collections in the memory of each device (a GPU's own, the CPU backend's host memory). A
  // load takes no more than is free in any case; 0 bounds it by what is free when it begins, less the reserve.
  size_t memory_budget_bytes = 0;
  size_t memory_reserve_bytes = size_t{512} << 20;  // left free for workspaces when there is no budget
  // Bound the pinned host memory of collections on GPUs in the same way. The reserve is also for ids, offsets and
  // payloads.
  size_t host_budget_bytes = 0;
  size_t host_reserve_bytes = size_t{2} << 30;
  std::function<uint64_t()> free_host_bytes = nullptr;  // thread-safe; null for no bound
  // Collections that take less than this are replicated on every device, unless their configuration says otherwise.
  uint64_t replicate_below_bytes = 0;
  bool verify_checksums = true;  // hash every shard while loading; values (NaN, Infinity) are checked in any case
  int load_threads = 4;          // shards read at the same time
  // Bounds the documents that remembered filters match, for all collections together. Their memory is taken from the
  // budget of the first device (CPU backend) or of pinned host memory, while a collection with fields is loaded: at
  // most an eighth of a configured budget (kFilterCacheShare). 0 remembers none.
  uint64_t filter_cache_bytes = uint64_t{64} << 20;
  int max_code_planes = 4;  // planes of codes that are loaded at most: 0, 1, 2 or 4
  // This is the largest dimension of a collection: ExecutorOptions::max_dim of the engine that will score it, so that
  // a collection on which no query could be scored fails when it is loaded.
  int32_t max_dim = kMaxDim;
  // The slots that each collection must have: all of them if the server holds whole collections. nullopt allows any.
  std::optional<collection::SlotRange> partition = {};
};

// Describes a live collection that is to be opened, and what it may use of its store.
struct LiveRequest {
  std::string name;
  std::string path;
  collection::Manifest manifest;  // as it is published
  Replication replication = Replication::kAuto;
  bool create = false;             // make the log if there is none
  DeviceSet* devices = nullptr;    // outlives the result
  MemoryLedger* ledger = nullptr;  // outlives the result
  // Loads and serves the generation that is published now (CollectionStore::Reload). Not to be called from Serve.
  std::function<absl::Status(const StopSignal* stop)> reload = {};
};

// Opens the log of a collection. Errors as collection::CollectionLog::Open.
using OpenLive = std::function<absl::StatusOr<std::shared_ptr<LiveDocuments>>(const LiveRequest& request)>;

// A collection's state as it is shown to people.
struct CollectionStatus {
  enum class State { kLoading, kReady, kFailed };
  std::string name;
  std::string path;
  State state = State::kLoading;
  std::string error;                             // why it failed, or why the last reload did
  std::shared_ptr<const Collection> collection;  // null unless a generation is being served
  std::shared_ptr<LiveDocuments> live;           // null unless it is live, and being served
};

// The class is thread-safe. Loads of different names run side by side and share the memory budget without
// overcommitting it; a load, reload or unload of one name waits for the one before. Find and List never wait for a
// load.
//
// Functions that load or wait take a signal `stop` (may be null) and end with its status soon after it is stopped:
// within the next kStopBlockBytes that are read or checked, or the copying of a shard to a GPU. Memory and descriptors
// of what was loaded so far are given back.
class CollectionStore {
 public:
  // `devices`, and their backends, must outlive the store and every collection it gave out.
  CollectionStore(DeviceSet* devices, StoreOptions options);
  // Returns the slots that each collection must have; nullopt: any.
  const std::optional<collection::SlotRange>& partition() const { return options_.partition; }
  // Says how live collections are opened; without it none can be loaded. Before the first load.
  void SetOpenLive(OpenLive open_live) { open_live_ = std::move(open_live); }
  // Makes a store on one device, whose DeviceSet the store owns.
  CollectionStore(Backend* backend, StoreOptions options);
  ~CollectionStore();

  // Reads the manifest, plans the memory, loads every shard, and only then makes the collection visible. The plan is
  // logged. Errors are INVALID_ARGUMENT (the name), NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION (a dimension,
  // residency or partition this server cannot serve), DATA_LOSS (damaged files), RESOURCE_EXHAUSTED with the numbers. A
  // failed load leaves a kFailed entry in List, which a new Load of that name replaces. With `root` (not "") no file is
  // read but one that lies beneath it (Folder::OpenBeneath, whose conditions apply), by this load and by later reloads.
  // A folder with a log is a live collection, whose log must not be open elsewhere (FAILED_PRECONDITION); with `live` a
  // log is made where there is none.
  absl::StatusOr<std::shared_ptr<const Collection>> Load(const std::string& name, const std::string& path,
                                                         Residency residency,
                                                         Replication replication = Replication::kAuto,
                                                         const std::string& root = "", const StopSignal* stop = nullptr,
                                                         bool live = false);

  // Loads the published generation of a loaded (or failed) collection and swaps it in; the memory must hold both until
  // the swap. On an error the old one stays. `changed` (may be null) is false when what is published is what is served
  // already, and then nothing is loaded, unless a served file was changed (Collection::Check) or a part is on a device
  // that was lost: then the collection moves to the devices that are left.
  absl::StatusOr<std::shared_ptr<const Collection>> Reload(const std::string& name, bool* changed,
                                                           const StopSignal* stop = nullptr);

  // Returns NOT_FOUND for an unknown name.
  absl::Status Unload(const std::string& name, const StopSignal* stop = nullptr);

  // Returns whether a load, reload or unload of the name runs now.
  bool IsBusy(std::string_view name) const;

  // Ends loads for good: those that run end with UNAVAILABLE as if stopped, later ones do so at once. Does not wait.
  void StopLoads() { stop_loads_.Request(absl::StatusCode::kUnavailable); }

  // Ends writing to all collections (LiveDocuments::Stop), which are served as they are. Blocks.
  void StopLive();

  // Returns the generation that is served. Errors are NOT_FOUND for an unknown name (the message lists the known ones),
  // and UNAVAILABLE while the collection loads or when it failed.
  absl::StatusOr<std::shared_ptr<const Collection>> Find(std::string_view name) const;

  // Returns the object that takes writes to a collection. Errors are those of Find, and FAILED_PRECONDITION for a
  // collection that is not live.
  absl::StatusOr<std::shared_ptr<LiveDocuments>> FindLive(std::string_view name) const;

  // Lists all collections in name order.
  std::vector<CollectionStatus> List() const;

  // Formats the memory that loading the collection at `path` would take, as a table for people: one line per shard,
  // totals, and free memory.
  absl::StatusOr<std::string> MemoryPlan(const std::string& path, Residency residency,
                                         Replication replication = Replication::kAuto) const;

 private:
  struct Entry;
  class EntryLock;
  std::shared_ptr<Entry> FindEntry(std::string_view name) const;
  absl::Status LockEntry(const std::shared_ptr<Entry>& entry, const StopSignal* stop, EntryLock* entry_lock);
  absl::Status UnknownLocked(std::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Loading (collection_store_load.cc):
  absl::StatusOr<std::shared_ptr<const Collection>> LoadEntry(const std::shared_ptr<Entry>& entry,
                                                              const std::shared_ptr<const Collection>& served,
                                                              const StopSignal* stop, bool* changed);
  absl::StatusOr<std::shared_ptr<const Collection>> LoadPublished(const std::shared_ptr<Entry>& entry,
                                                                  const std::string& root,
                                                                  const collection::Manifest& manifest,
                                                                  LoadRequest* request);
  absl::StatusOr<std::shared_ptr<LiveDocuments>> LiveOf(const std::shared_ptr<Entry>& entry, const Folder& folder,
                                                        const std::string& root, const collection::Manifest& manifest);

  // Returns the cache of filters for a collection with this manifest: null for one without fields. Makes and reserves
  // it where no collection has it yet.
  absl::StatusOr<std::shared_ptr<FilterCache>> FilterCacheFor(const collection::Manifest& manifest);

  CollectionStore(std::unique_ptr<DeviceSet> owned, DeviceSet* devices, StoreOptions options);

  const std::unique_ptr<DeviceSet> owned_devices_;
  DeviceSet* const devices_;
  const StoreOptions options_;
  const std::unique_ptr<MemoryLedger> ledger_;
  const std::unique_ptr<FileLedger> files_;
  OpenLive open_live_;
  StopSignal stop_loads_;
  Mutex filter_cache_mutex_;
  // Generations with fields own it.
  std::weak_ptr<FilterCache> filter_cache_ ABSL_GUARDED_BY(filter_cache_mutex_);
  // Guards the entries too, but for their names.
  mutable Mutex mutex_;
  ConditionVariable entry_unlocked_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::store
