#include "server/store/collection_store.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "base/text.h"
#include "collection/manifest.h"
#include "server/observability/log_event.h"
#include "server/store/collection_store_impl.h"
#include "server/store/memory/file_ledger.h"
#include "server/store/memory/memory_ledger.h"
#include "server/store/memory_plan.h"

namespace maxsim::store {
namespace {

constexpr size_t kMaxNamesListed = 20;  // in an error message

// How often a thread that waits for an entry checks its stop signal.
constexpr std::chrono::milliseconds kStopPoll{20};

}  // namespace

CollectionStore::CollectionStore(DeviceSet* devices, StoreOptions options)
    : CollectionStore(nullptr, devices, std::move(options)) {}

CollectionStore::CollectionStore(Backend* backend, StoreOptions options)
    : CollectionStore(std::make_unique<DeviceSet>(backend), nullptr, std::move(options)) {}

CollectionStore::CollectionStore(std::unique_ptr<DeviceSet> owned, DeviceSet* devices, StoreOptions options)
    : owned_devices_(std::move(owned)),
      devices_(owned_devices_ != nullptr ? owned_devices_.get() : devices),
      options_(std::move(options)),
      ledger_(std::make_shared<MemoryLedger>(
          devices_, MemoryBudget{options_.memory_budget_bytes, options_.memory_reserve_bytes},
          MemoryBudget{options_.host_budget_bytes, options_.host_reserve_bytes}, options_.free_host_bytes)),
      files_(std::make_unique<FileLedger>()) {}

// Without StopLive, a thread of a live collection that publishes a snapshot could hold the last reference to the entry,
// and would then destroy the collection to which it belongs.
CollectionStore::~CollectionStore() { StopLive(); }

void CollectionStore::StopLive() {
  std::vector<std::shared_ptr<LiveDocuments>> all;
  {
    const MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) {
      if (entry->live != nullptr) all.push_back(entry->live);
    }
  }
  for (const std::shared_ptr<LiveDocuments>& live : all) live->Stop();
}

std::shared_ptr<CollectionStore::Entry> CollectionStore::FindEntry(std::string_view name) const {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second;
}

absl::Status CollectionStore::UnknownLocked(std::string_view name) const {
  // Lists only collections that the caller can use, and not those that are loading or failed to load.
  size_t num_served = 0;
  std::string names;
  for (const auto& [known, entry] : entries_) {
    if (entry->collection == nullptr) continue;
    if (num_served++ < kMaxNamesListed) names += Cat(names.empty() ? "" : ", ", known);
  }
  std::string text = Cat("no collection ", Quote(name));
  if (num_served == 0) return absl::NotFoundError(Cat(text, "; none is loaded"));
  text += Cat("; loaded: ", names);
  if (num_served > kMaxNamesListed) text += Cat(" and ", num_served - kMaxNamesListed, " more");
  return absl::NotFoundError(text);
}

absl::Status CollectionStore::LockEntry(const std::shared_ptr<Entry>& entry, const StopSignal* stop,
                                        EntryLock* entry_lock) {
  MutexLock lock(&mutex_);
  while (entry->busy) {
    if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    // A stop signal does not notify the condition variable, so the wait has a time limit.
    entry_unlocked_.WaitFor(lock, kStopPoll);
  }
  entry->busy = true;
  entry_lock->Begin(entry);
  return absl::OkStatus();
}

absl::Status CollectionStore::AwaitedLocked(const Entry& entry) const {
  return absl::UnavailableError(Cat("collection \"", entry.name, "\" is not on this server yet: ", entry.error));
}

void CollectionStore::Await(const std::string& name, const std::string& reason) {
  const auto entry = std::make_shared<Entry>(name);
  entry->is_awaited = true;
  const MutexLock lock(&mutex_);
  const auto found = entries_.try_emplace(name, entry).first;
  if (found->second->is_awaited) found->second->error = reason;
}

void CollectionStore::StopAwaiting(const std::string& name) {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second->is_awaited || found->second->busy) return;
  found->second->removed = true;
  entries_.erase(found);
}

bool CollectionStore::IsBusy(std::string_view name) const {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  return found != entries_.end() && found->second->busy;
}

absl::Status CollectionStore::Unload(const std::string& name, const StopSignal* stop) {
  while (true) {
    const std::shared_ptr<Entry> entry = FindEntry(name);
    if (entry == nullptr) {
      const MutexLock lock(&mutex_);
      return UnknownLocked(name);
    }
    EntryLock entry_lock(this);
    if (absl::Status status = LockEntry(entry, stop, &entry_lock); !status.ok()) return status;
    std::shared_ptr<const Collection> released;  // freed outside the lock
    std::shared_ptr<LiveDocuments> closed;
    {
      const MutexLock lock(&mutex_);
      if (entry->removed) continue;
      closed = entry->live;
    }
    // Accepted writes must be on disk before the name can be used again.
    if (closed != nullptr) closed->Stop();
    const MutexLock lock(&mutex_);
    entry->removed = true;
    entry->live = nullptr;
    released = std::move(entry->collection);
    entries_.erase(name);
    if (released != nullptr) log::Write(spdlog::level::info, "collection_unloaded", {{"name", name}});
    return absl::OkStatus();
  }
}

absl::StatusOr<std::shared_ptr<const Collection>> CollectionStore::Find(std::string_view name) const {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return UnknownLocked(name);
  const Entry& entry = *found->second;
  if (entry.collection != nullptr) return entry.collection;
  if (entry.is_awaited) return AwaitedLocked(entry);
  if (entry.state == CollectionStatus::State::kLoading) {
    return absl::UnavailableError(Cat("collection \"", name, "\" is still loading"));
  }
  return absl::UnavailableError(Cat("collection \"", name, "\" failed to load: ", entry.error));
}

absl::StatusOr<std::shared_ptr<LiveDocuments>> CollectionStore::FindLive(std::string_view name) const {
  absl::StatusOr<std::shared_ptr<const Collection>> collection = Find(name);
  if (!collection.ok()) return collection.status();
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return UnknownLocked(name);
  if (found->second->live != nullptr) return found->second->live;
  return absl::FailedPreconditionError(
      Cat("collection \"", name, "\" is not live: it takes no writes (set live: true for this collection)"));
}

std::vector<CollectionStatus> CollectionStore::List() const {
  const MutexLock lock(&mutex_);
  std::vector<CollectionStatus> result;
  result.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    result.push_back({name, entry->path, entry->state, entry->error, entry->collection, entry->live, entry->is_awaited,
                      entry->reload_revision, entry->previous_generation});
  }
  return result;
}

absl::StatusOr<std::string> CollectionStore::MemoryPlan(const std::string& path, Residency residency,
                                                        Replication replication) const {
  const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(path);
  if (!manifest.ok()) return manifest.status();
  const absl::StatusOr<store::MemoryPlan> plan =
      PlanMemory(*devices_, *manifest, residency, replication, options_, ledger_->Available());
  if (!plan.ok()) return plan.status();
  return FormatMemoryPlan(*devices_, *manifest, *plan);
}

}  // namespace maxsim::store
