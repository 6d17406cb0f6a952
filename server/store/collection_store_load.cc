// Loads and reloads collections.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/folder.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "server/observability/log_event.h"
#include "server/store/collection/filter_cache.h"
#include "server/store/collection/generation.h"
#include "server/store/collection_loader.h"
#include "server/store/collection_store.h"
#include "server/store/collection_store_impl.h"
#include "server/store/memory/memory_ledger.h"
#include "server/store/wanted_generation.h"

namespace maxsim::store {
namespace {

constexpr std::string_view kFilterCachePurpose = "the cache of filters (memory.filter_cache)";

// Returns whether the manifest is that of the served generation. Ignores one difference: a live collection's first
// manifest may get its log_sequence after the generation was loaded (LiveDocuments::Serve).
bool IsServed(const collection::Manifest& published, const Collection& served) {
  collection::Manifest manifest = served.manifest();
  if (served.is_live() && !manifest.log_sequence.has_value() && published.log_sequence == uint64_t{0}) {
    manifest.log_sequence = 0;
  }
  return collection::FormatManifest(published) == collection::FormatManifest(manifest);
}

absl::StatusOr<Folder> OpenFolder(const std::string& root, const std::string& path) {
  if (root.empty()) return Folder(path);
  return Folder::OpenBeneath(root, path);
}

absl::StatusOr<collection::Manifest> ReadPublished(const Folder& folder) {
  absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(folder);
  // The file is damaged, which is not the caller's mistake, so the error must not be INVALID_ARGUMENT.
  if (absl::IsInvalidArgument(manifest.status())) return absl::DataLossError(manifest.status().message());
  return manifest;
}

// Returns PERMISSION_DENIED if `root` is set and the log folder is a symbolic link. The server writes to the log, and a
// link may lead outside the root.
absl::Status CheckLogFolder(const std::string& folder, const std::string& root) {
  const std::filesystem::path log = std::filesystem::path(folder) / collection::kLogFolderName;
  std::error_code error;
  if (root.empty() || !std::filesystem::is_symlink(std::filesystem::symlink_status(log, error))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(Cat(log.string(), ": is a symbolic link"));
}

absl::Status CheckPartition(const std::string& path, const collection::Manifest& manifest,
                            const std::optional<collection::SlotRange>& wanted) {
  if (!wanted.has_value() || *wanted == manifest.slots()) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat(path, ": holds ", collection::DescribeSlots(manifest.slots()),
                                           ", but this server is for ", collection::DescribeSlots(*wanted),
                                           " (cluster.partition)"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<LiveDocuments>> CollectionStore::LiveOf(const std::shared_ptr<Entry>& entry,
                                                                       const Folder& folder, const std::string& root,
                                                                       const collection::Manifest& manifest) {
  LiveRequest request{
      .name = entry->name, .path = folder.path(), .manifest = manifest, .devices = devices_, .ledger = ledger_.get()};
  {
    const MutexLock lock(&mutex_);
    if (entry->live != nullptr) return entry->live;
    request.replication = entry->replication;
    request.create = entry->wants_log;
  }
  if (!collection::HasLog(folder.path()) && !request.create) {
    if (!manifest.log_sequence.has_value()) return nullptr;
    absl::Status missing = collection::CheckLogIsThere(folder.path(), manifest);
    if (*manifest.log_sequence == 0) return missing;
    return absl::FailedPreconditionError(
        Cat(ForStrCat(std::string(missing.message())),
            "; or load it with live: true, and a new log begins after that sequence, without later writes, versions "
            "of ids and the deletes of documents in shards that were kept"));
  }
  if (open_live_ == nullptr) {
    return absl::FailedPreconditionError(Cat(folder.path(), ": is a live collection, which this program cannot serve"));
  }
  if (absl::Status status = CheckLogFolder(folder.path(), root); !status.ok()) return status;
  request.reload = [this, weak = std::weak_ptr<Entry>(entry)](const StopSignal* stop) {
    const std::shared_ptr<Entry> known = weak.lock();
    const auto reloaded = known == nullptr ? std::nullopt : ReloadEntry(known, nullptr, stop, {});
    return reloaded.has_value() ? reloaded->status() : absl::UnavailableError("the collection is unloaded");
  };
  return open_live_(request);
}

absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::LoadWanted(
    const std::shared_ptr<Entry>& entry, const std::shared_ptr<const Collection>& served, const std::string& root,
    const LoadKind& kind, LoadRequest* request, bool* changed) {
  const Folder& folder = *request->folder;
  absl::StatusOr<collection::Manifest> published = ReadPublished(folder);
  if (!published.ok()) return published.status();
  FolderState state{.published = *std::move(published),
                    .served = served == nullptr ? 0 : served->manifest().generation};
  std::optional<collection::SlotRange> partition = options_.partition;
  {
    const MutexLock lock(&mutex_);
    if (entry->any_slots) partition.reset();
    state.is_live = entry->wants_log;
    state.revision = entry->reload_revision;
  }
  state.is_live = state.is_live || state.published.log_sequence.has_value() || collection::HasLog(folder.path());
  absl::StatusOr<WantedGeneration> wanted = ChooseWanted(folder, state, kind);
  if (!wanted.ok()) return wanted.status();
  const auto load = [&]() -> absl::StatusOr<std::shared_ptr<const Collection>> {
    const collection::Manifest& manifest = wanted->manifest;
    if (absl::Status status = CheckPartition(folder.path(), manifest, partition); !status.ok()) return status;
    *changed = served == nullptr || !IsServed(manifest, *served) || !served->Check().ok() ||
               served->num_unavailable(*devices_) > 0;
    return *changed ? LoadPublished(entry, root, manifest, request) : served;
  };
  absl::StatusOr<std::shared_ptr<const Collection>> loaded = load();
  if (kind.at_start && absl::IsNotFound(loaded.status()) && wanted->manifest.generation != state.published.generation) {
    // The server may have been away while the files of the noted generation were removed. What it loads now has no
    // revision, so routers send it no requests unless it is what the others serve.
    log::Write(spdlog::level::warn, "noted_generation_not_loaded",
               {{"name", entry->name},
                {"generation", wanted->manifest.generation},
                {"published", state.published.generation},
                {"error", loaded.status().ToString()}});
    wanted = WantedGeneration{.manifest = state.published};
    loaded = load();
  }
  if (MustNote(kind, *wanted, loaded.status())) Note(entry->name, folder, *wanted);
  if (!loaded.ok()) return loaded;
  const int64_t previous = state.is_live ? 0 : PreviousOf(folder, wanted->manifest.generation);
  const MutexLock lock(&mutex_);
  entry->reload_revision = wanted->revision;
  entry->previous_generation = previous;
  return loaded;
}

// The caller must hold the entry's lock. The entry's state must be kLoading, or kReady with the generation that is
// served.
absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::LoadEntry(
    const std::shared_ptr<Entry>& entry, const std::shared_ptr<const Collection>& served, const LoadKind& kind,
    const StopSignal* stop, bool* changed) {
  const StopSignal either(&stop_loads_, stop);
  std::string path;
  std::string root;
  LoadRequest request;
  request.name = entry->name;
  request.served = served.get();
  request.stop = &either;
  {
    const MutexLock lock(&mutex_);
    path = entry->path;
    root = entry->root;
    request.residency = entry->residency;
    request.replication = entry->replication;
  }
  *changed = true;
  absl::StatusOr<std::shared_ptr<const Collection>> loaded = nullptr;
  const absl::StatusOr<Folder> folder = OpenFolder(root, path);  // stays open until the last shard is open
  if (!folder.ok()) {
    loaded = folder.status();
  } else {
    request.folder = &*folder;
    try {
      loaded = LoadWanted(entry, served, root, kind, &request, changed);
    } catch (const std::bad_alloc&) {
      loaded = absl::ResourceExhaustedError(Cat("no memory to load collection ", request.name));
    }
  }
  if (!loaded.ok()) {
    log::Write(spdlog::level::err, "collection_load_failed",
               {{"name", request.name},
                {"path", path},
                {"still_serving_generation",
                 served == nullptr ? log::Value("none") : log::Value(served->manifest().generation)},
                {"error", loaded.status().ToString()}});
  }
  std::shared_ptr<const Collection> replaced;  // freed outside the lock: unmapping and freeing take time
  std::shared_ptr<LiveDocuments> closed;       // log of a collection that failed to load; also freed outside the lock
  const MutexLock lock(&mutex_);
  if (loaded.ok()) {
    // A live collection has already put its snapshot, or a later one, in entry->collection, which must stay there.
    if (entry->live == nullptr) replaced = std::exchange(entry->collection, *loaded);
    entry->state = CollectionStatus::State::kReady;
    entry->error.clear();
  } else {
    if (served == nullptr) closed = std::exchange(entry->live, nullptr);
    entry->state = served == nullptr ? CollectionStatus::State::kFailed : CollectionStatus::State::kReady;
    // A late command is refused because it is not needed any more: nothing is wrong with the collection.
    if (served == nullptr || !absl::IsAborted(loaded.status())) entry->error = loaded.status().ToString();
  }
  return loaded;
}

absl::StatusOr<std::shared_ptr<FilterCache>> CollectionStore::FilterCacheFor(const collection::Manifest& manifest) {
  if (options_.filter_cache_bytes == 0) return nullptr;
  const MutexLock lock(&filter_cache_mutex_);
  std::weak_ptr<FilterCache>& known = manifest.fields.empty() ? slot_filter_cache_ : filter_cache_;
  std::shared_ptr<FilterCache> cache = known.lock();
  if (cache != nullptr) return cache;
  // If the budget is small, leave most of it to the collections.
  const uint64_t budget = devices_->is_gpu() ? options_.host_budget_bytes : options_.memory_budget_bytes;
  const uint64_t bytes =
      budget == 0 ? options_.filter_cache_bytes : std::min(options_.filter_cache_bytes, budget / kFilterCacheShare);
  MemoryDemand demand{.device_bytes = std::vector<uint64_t>(devices_->size()), .host_bytes = 0};
  (devices_->is_gpu() ? demand.host_bytes : demand.device_bytes.front()) = bytes;
  if (manifest.fields.empty()) {
    // A collection may outlive the store and its ledger.
    const auto reserve = [ledger = std::weak_ptr<MemoryLedger>(ledger_),
                          demand]() -> std::shared_ptr<const Reservation> {
      const std::shared_ptr<MemoryLedger> alive = ledger.lock();
      if (alive == nullptr) return nullptr;
      absl::StatusOr<std::shared_ptr<Reservation>> reservation = alive->Reserve(demand, kFilterCachePurpose);
      return reservation.ok() ? *std::move(reservation) : nullptr;
    };
    cache = std::make_shared<FilterCache>(bytes, nullptr, reserve);
  } else {
    const absl::StatusOr<std::shared_ptr<Reservation>> reservation = ledger_->Reserve(demand, kFilterCachePurpose);
    if (!reservation.ok()) return reservation.status();
    cache = std::make_shared<FilterCache>(bytes, *reservation);
  }
  known = cache;
  return cache;
}

// Loads the manifest's generation. If the collection is live, serves the generation with the log's writes. The caller
// must hold the entry's lock.
absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::LoadPublished(const std::shared_ptr<Entry>& entry,
                                                                                 const std::string& root,
                                                                                 const collection::Manifest& manifest,
                                                                                 LoadRequest* request) {
  const absl::StatusOr<std::shared_ptr<LiveDocuments>> live = LiveOf(entry, *request->folder, root, manifest);
  if (!live.ok()) return live.status();
  if (*live != nullptr) {
    absl::StatusOr<collection::Tombstones> tombstones = (*live)->TombstonesOf(manifest);
    if (!tombstones.ok()) return tombstones.status();
    request->tombstones = *std::move(tombstones);
    request->share_parts = true;
  }
  absl::StatusOr<std::shared_ptr<FilterCache>> filter_cache = FilterCacheFor(manifest);
  if (!filter_cache.ok()) return filter_cache.status();
  request->filter_cache = *std::move(filter_cache);
  const absl::StatusOr<std::shared_ptr<const Generation>> generation =
      LoadGeneration(*request, manifest, devices_, options_, ledger_.get(), files_.get());
  if (!generation.ok()) return generation.status();
  if (*live == nullptr) return std::make_shared<const Collection>(*generation);
  {
    const MutexLock lock(&mutex_);
    entry->live = *live;
  }
  // The callback has a weak reference, so that the collection does not keep its entry alive. A snapshot that is
  // published after the entry was destroyed is dropped.
  const auto publish = [this, weak = std::weak_ptr<Entry>(entry)](std::shared_ptr<const Collection> snapshot) {
    const std::shared_ptr<Entry> known = weak.lock();
    if (known == nullptr) return;
    // The snapshot that this one replaces is freed after the lock is released.
    const MutexLock lock(&mutex_);
    if (!known->removed) known->collection.swap(snapshot);
  };
  if (absl::Status status = (*live)->Serve(*generation, publish, request->stop); !status.ok()) return status;
  const MutexLock lock(&mutex_);
  return entry->collection;
}

absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::Load(const std::string& name,
                                                                        const std::string& path, Residency residency,
                                                                        Replication replication,
                                                                        const std::string& root, const StopSignal* stop,
                                                                        bool live) {
  return Load(
      {.name = name, .path = path, .residency = residency, .replication = replication, .root = root, .live = live},
      stop);
}

absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::Load(const LoadSpec& spec, const StopSignal* stop) {
  if (absl::Status status = collection::CheckCollectionName(spec.name); !status.ok()) return status;
  while (true) {
    // A new entry is locked from the start, so that no other load uses it before this call has filled it.
    auto entry = std::make_shared<Entry>(spec.name);
    entry->path = spec.path;
    entry->busy = true;
    EntryLock entry_lock(this);
    std::shared_ptr<Entry> existing;
    {
      const MutexLock lock(&mutex_);
      existing = entries_.try_emplace(spec.name, entry).first->second;
    }
    if (existing != entry) {
      entry = std::move(existing);
      if (absl::Status status = LockEntry(entry, stop, &entry_lock); !status.ok()) return status;
    } else {
      entry_lock.Begin(entry);
    }
    {
      const MutexLock lock(&mutex_);
      if (entry->removed) continue;  // unloaded or replaced while this call waited
      if (entry->collection != nullptr) {
        return absl::AlreadyExistsError(
            Cat("collection \"", spec.name, "\" is loaded already, from ", entry->path, "; reload or unload it"));
      }
      entry->Begin(spec);
    }
    bool changed = false;
    return LoadEntry(entry, nullptr, {.at_start = spec.at_start}, stop, &changed);
  }
}

std::optional<absl::StatusOr<std::shared_ptr<const Collection>>> CollectionStore::ReloadEntry(
    const std::shared_ptr<Entry>& entry, bool* changed, const StopSignal* stop, const ReloadTarget& target) {
  EntryLock entry_lock(this);
  if (absl::Status status = LockEntry(entry, stop, &entry_lock); !status.ok()) return status;
  std::shared_ptr<const Collection> served;
  {
    const MutexLock lock(&mutex_);
    if (entry->removed) return std::nullopt;
    if (entry->is_awaited) return AwaitedLocked(*entry);
    served = entry->collection;
    if (served == nullptr) {
      entry->state = CollectionStatus::State::kLoading;
      entry->error.clear();
    }
  }
  bool differs = false;
  absl::StatusOr<std::shared_ptr<const Collection>> result =
      LoadEntry(entry, served, {.target = target}, stop, &differs);
  if (changed != nullptr) *changed = result.ok() && differs;
  return result;
}

absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::Reload(const std::string& name, bool* changed,
                                                                          const StopSignal* stop,
                                                                          const ReloadTarget& target) {
  while (true) {
    const std::shared_ptr<Entry> entry = FindEntry(name);
    if (entry == nullptr) {
      const MutexLock lock(&mutex_);
      return UnknownLocked(name);
    }
    if (auto result = ReloadEntry(entry, changed, stop, target); result.has_value()) return *std::move(result);
  }
}

}  // namespace maxsim::store
