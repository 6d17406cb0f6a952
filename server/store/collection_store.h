// The collections that a server holds, by name.
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
struct LoadKind;
struct LoadRequest;

// The cache of filters takes at most this share of a configured budget: an eighth.
inline constexpr uint64_t kFilterCacheShare = 8;

struct StoreOptions {
  // The limit, for each device, of the bytes that all collections together take there (GPU memory, or host memory with
  // the CPU backend). A load never takes more than is free. 0 sets no limit: a load may take all free memory except
  // memory_reserve_bytes.
  size_t memory_budget_bytes = 0;
  size_t memory_reserve_bytes = size_t{512} << 20;  // left free for workspaces if there is no budget
  // The limit (0 for none) and the reserve of pinned host memory for all collections, on servers with GPUs. The reserve
  // must also leave room for ids, offsets and payloads.
  size_t host_budget_bytes = 0;
  size_t host_reserve_bytes = size_t{2} << 30;
  std::function<uint64_t()> free_host_bytes = nullptr;  // thread-safe; null for no bound
  // With Replication::kAuto, a collection that takes fewer bytes than this is replicated on every device.
  uint64_t replicate_below_bytes = 0;
  bool verify_checksums = true;  // hash every shard while loading; NaN and Infinity are always rejected
  int load_threads = 4;          // shards read at the same time
  // The size of the cache of filters, which all collections with fields share; 0 for no cache. Its memory comes from
  // the budget of the first device (CPU backend) or of pinned host memory, and is reserved as long as a collection with
  // fields is loaded. If a budget is configured, the cache takes at most an eighth of it (kFilterCacheShare).
  // Collections without fields share a second cache of this size. Its memory is reserved by the first request with an
  // in_slots; while no memory is free, that cache stays empty.
  uint64_t filter_cache_bytes = uint64_t{64} << 20;
  int max_code_planes = 4;  // the most planes of codes to load: 0, 1, 2 or 4
  // The largest dimension of a collection. Set it to ExecutorOptions::max_dim of the engine: the load of a collection
  // that the engine cannot score then fails.
  int32_t max_dim = kMaxDim;
  // If set, a collection is loaded only if it has exactly these slots (hash values of ids; cluster.partition) or if
  // LoadSpec::any_slots is set. nullopt allows any slots.
  std::optional<collection::SlotRange> partition = {};
};

// Says which generation to load.
struct ReloadTarget {
  int64_t generation = 0;  // 0 for the published one
  uint64_t revision = 0;   // of a reload of a whole cluster; 0 for a reload of this server alone
};

// Says which collection to load, and how.
struct LoadSpec {
  std::string name;
  std::string path;
  Residency residency = Residency::kAuto;
  Replication replication = Replication::kAuto;
  std::string root = {};   // if not "", this load and later reloads only read files beneath it (Folder::OpenBeneath)
  bool live = false;       // make a log if the folder has none
  bool any_slots = false;  // also load a collection whose slots are not StoreOptions::partition
  bool at_start = false;   // load the generation that was noted, rather than the published one (wanted_generation.h)
};

// Describes a live collection that is to be opened, and the parts of the store that it may use.
struct LiveRequest {
  std::string name;
  std::string path;
  collection::Manifest manifest;  // as it is published
  Replication replication = Replication::kAuto;
  bool create = false;             // make the log if there is none
  DeviceSet* devices = nullptr;    // outlives the result
  MemoryLedger* ledger = nullptr;  // outlives the result
  // Loads and serves the published generation (CollectionStore::Reload). Must not be called from Serve.
  std::function<absl::Status(const StopSignal* stop)> reload = {};
};

// Opens the log of a collection. Returns the errors of collection::CollectionLog::Open.
using OpenLive = std::function<absl::StatusOr<std::shared_ptr<LiveDocuments>>(const LiveRequest& request)>;

// A collection's state as it is shown to people.
struct CollectionStatus {
  enum class State { kLoading, kReady, kFailed };
  std::string name;
  std::string path;
  State state = State::kLoading;
  std::string error;                             // why the load or the last reload failed
  std::shared_ptr<const Collection> collection;  // null unless a generation is being served
  std::shared_ptr<LiveDocuments> live;           // null unless the collection is live and being served
  bool is_awaited = false;                       // the server lacks it (Await); `error` says what it waits for
  uint64_t reload_revision = 0;                  // of the reload that made the server serve the generation; 0: none
  int64_t previous_generation = 0;               // to which a reload can go back; 0: none
};

// The class is thread-safe. Loads of different names run in parallel and never exceed the memory budget together. A
// load, reload or unload waits until the previous one of the same name has ended. Find and List never wait for a load.
//
// Functions that load or wait take a signal `stop` (may be null). Soon after it is stopped, they return its status: at
// the latest when the next kStopBlockBytes are read or checked, or the current shard is copied to a GPU. They release
// the memory and descriptors of everything that they have loaded.
class CollectionStore {
 public:
  // `devices`, and their backends, must outlive the store and every collection it gave out.
  CollectionStore(DeviceSet* devices, StoreOptions options);
  // Returns StoreOptions::partition.
  const std::optional<collection::SlotRange>& partition() const { return options_.partition; }
  // Sets the function that opens live collections. Call it before the first load. Without it no live collection can be
  // loaded.
  void SetOpenLive(OpenLive open_live) { open_live_ = std::move(open_live); }
  // Makes a store on the one device of `backend`. The store makes its own DeviceSet. `backend` must outlive the store
  // and every collection it gave out.
  CollectionStore(Backend* backend, StoreOptions options);
  ~CollectionStore();

  // Reads the manifest, plans the memory, loads every shard, and then makes the collection visible. Logs the plan.
  // Errors are INVALID_ARGUMENT (invalid name), NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION (a dimension, residency
  // or partition that this server cannot serve), DATA_LOSS (damaged files), and RESOURCE_EXHAUSTED (too little memory;
  // the message has the numbers). A failed load leaves a kFailed entry in List; a new Load of that name replaces it. A
  // folder with a log is a live collection. Returns FAILED_PRECONDITION if the log is open elsewhere.
  absl::StatusOr<std::shared_ptr<const Collection>> Load(const LoadSpec& spec, const StopSignal* stop);
  absl::StatusOr<std::shared_ptr<const Collection>> Load(const std::string& name, const std::string& path,
                                                         Residency residency,
                                                         Replication replication = Replication::kAuto,
                                                         const std::string& root = "", const StopSignal* stop = nullptr,
                                                         bool live = false);

  // Loads a generation of a loaded (or failed) collection and swaps it in. The memory must hold both generations until
  // the swap. On an error the old one stays. If the generation is already served, sets `changed` (may be null) to false
  // and loads nothing, with two exceptions: it loads the generation if a served file was changed (Collection::Check) or
  // if a part is on a lost device. In the latter case the collection moves to the remaining devices.
  //
  // Notes the generation for the next start as wanted_generation.h says. Returns OUT_OF_RANGE if the folder does not
  // keep the generation, or if one is named and the collection is live; ABORTED if a reload with a later revision was
  // carried out.
  absl::StatusOr<std::shared_ptr<const Collection>> Reload(const std::string& name, bool* changed,
                                                           const StopSignal* stop = nullptr,
                                                           const ReloadTarget& target = {});

  // Loads a live collection from another folder, and serves it instead of the collection that has its name now. If no
  // collection has the name, serves it under the name. Until `prepare` has returned OK, the collection is not in List,
  // and the earlier one is served unchanged. The memory must hold both until the swap. `prepare` gets the loaded
  // collection, which already applies the writes of its stream, and is called without a lock. Errors are those of Load,
  // FAILED_PRECONDITION if the folder has no live collection, and those of `prepare`; after an error nothing has
  // changed, and the folder is closed.
  //
  // Reads are served at all times, and no read after the swap sees less than a read before it. The earlier collection
  // takes no writes for a moment before the swap: until its accepted writes are answered and the new collection has
  // applied them. Writes that arrive in this moment get UNAVAILABLE, and nothing of them is written.
  using Prepare = std::function<absl::Status(LiveDocuments& loaded)>;
  absl::StatusOr<std::shared_ptr<const Collection>> Replace(const LoadSpec& spec, const Prepare& prepare,
                                                            const StopSignal* stop);

  // Shows in List, with the state kLoading, a collection that the server does not have yet. `reason` says what the
  // server waits for. Find and Reload return UNAVAILABLE with the reason. If the collection is shown already, replaces
  // the reason. Does nothing if the name is that of a collection that was loaded, or is loading. Load, Replace and
  // Unload treat the name as if it were unknown, except that Unload returns OK.
  void Await(const std::string& name, const std::string& reason);
  // Removes the entry that Await made, unless a collection was loaded under this name since.
  void StopAwaiting(const std::string& name);

  // Returns NOT_FOUND for an unknown name.
  absl::Status Unload(const std::string& name, const StopSignal* stop = nullptr);

  // Returns whether a load, reload or unload of the name is running.
  bool IsBusy(std::string_view name) const;

  // Ends loading for good. Running loads end soon with UNAVAILABLE, and later loads return it immediately. Does not
  // wait.
  void StopLoads() { stop_loads_.Request(absl::StatusCode::kUnavailable); }

  // Ends writing to all live collections (LiveDocuments::Stop). Searches still work. Blocks.
  void StopLive();

  // Returns the snapshot of the collection that is served now. Errors are NOT_FOUND for an unknown name (the message
  // lists the known ones), and UNAVAILABLE while the collection loads or when it failed.
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
  absl::Status AwaitedLocked(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Replacing (collection_store_replace.cc):
  void Swap(const std::shared_ptr<Entry>& entry, const std::shared_ptr<LiveDocuments>& live);

  // Loading (collection_store_load.cc):
  absl::StatusOr<std::shared_ptr<const Collection>> LoadEntry(const std::shared_ptr<Entry>& entry,
                                                              const std::shared_ptr<const Collection>& served,
                                                              const LoadKind& kind, const StopSignal* stop,
                                                              bool* changed);
  // Loads the wanted generation, unless it is `served`, and notes it. Sets `changed` to false if it is.
  absl::StatusOr<std::shared_ptr<const Collection>> LoadWanted(const std::shared_ptr<Entry>& entry,
                                                               const std::shared_ptr<const Collection>& served,
                                                               const std::string& root, const LoadKind& kind,
                                                               LoadRequest* request, bool* changed);
  // Returns nullopt if the entry was removed from the store.
  std::optional<absl::StatusOr<std::shared_ptr<const Collection>>> ReloadEntry(const std::shared_ptr<Entry>& entry,
                                                                               bool* changed, const StopSignal* stop,
                                                                               const ReloadTarget& target);
  absl::StatusOr<std::shared_ptr<const Collection>> LoadPublished(const std::shared_ptr<Entry>& entry,
                                                                  const std::string& root,
                                                                  const collection::Manifest& manifest,
                                                                  LoadRequest* request);
  absl::StatusOr<std::shared_ptr<LiveDocuments>> LiveOf(const std::shared_ptr<Entry>& entry, const Folder& folder,
                                                        const std::string& root, const collection::Manifest& manifest);

  // Returns the cache of filters for a collection with this manifest, or null if filter_cache_bytes is 0. Makes the
  // cache if no collection uses it yet; if the collection has fields, this reserves the cache's memory.
  absl::StatusOr<std::shared_ptr<FilterCache>> FilterCacheFor(const collection::Manifest& manifest);

  CollectionStore(std::unique_ptr<DeviceSet> owned, DeviceSet* devices, StoreOptions options);

  const std::unique_ptr<DeviceSet> owned_devices_;
  DeviceSet* const devices_;
  const StoreOptions options_;
  const std::shared_ptr<MemoryLedger> ledger_;  // others have weak pointers to it
  const std::unique_ptr<FileLedger> files_;
  OpenLive open_live_;
  StopSignal stop_loads_;
  Mutex filter_cache_mutex_;
  // The generations of collections with fields own filter_cache_, those of other collections own slot_filter_cache_.
  std::weak_ptr<FilterCache> filter_cache_ ABSL_GUARDED_BY(filter_cache_mutex_);
  std::weak_ptr<FilterCache> slot_filter_cache_ ABSL_GUARDED_BY(filter_cache_mutex_);
  // Also guards the members of the entries, except for their names.
  mutable Mutex mutex_;
  ConditionVariable entry_unlocked_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::store
