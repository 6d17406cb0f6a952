// The entries of a CollectionStore, for the files that implement it: collection_store.cc finds, lists and unloads,
// collection_store_load.cc loads and reloads, collection_store_replace.cc replaces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "server/store/collection_store.h"

namespace maxsim::store {

struct CollectionStore::Entry {
  explicit Entry(std::string collection_name) : name(std::move(collection_name)) {}

  // Copies `spec` when a load begins. Its name must be the entry's.
  void Begin(const LoadSpec& spec) {
    path = spec.path;
    root = spec.root;
    residency = spec.residency;
    replication = spec.replication;
    wants_log = spec.live;
    any_slots = spec.any_slots;
    state = CollectionStatus::State::kLoading;
    error.clear();
    is_awaited = false;
    reload_revision = 0;
    previous_generation = 0;
  }

  const std::string name;

  // The store's mutex guards these members.
  bool busy = false;  // an EntryLock holds the entry
  std::string path;
  std::string root;
  Residency residency = Residency::kAuto;
  Replication replication = Replication::kAuto;
  bool wants_log = false;  // make a log if there is none
  bool any_slots = false;  // as LoadSpec::any_slots
  CollectionStatus::State state = CollectionStatus::State::kLoading;
  std::string error;
  std::shared_ptr<const Collection> collection;
  std::shared_ptr<LiveDocuments> live;  // of a live collection, once its log is open
  bool is_awaited = false;              // as in CollectionStatus
  uint64_t reload_revision = 0;         // as in CollectionStatus
  int64_t previous_generation = 0;      // as in CollectionStatus
  bool removed = false;                 // no longer in entries_
};

// The lock of one entry, which a load, reload or unload holds until it ends. Find and List do not wait for this lock.
class CollectionStore::EntryLock {
 public:
  explicit EntryLock(CollectionStore* store) : store_(store) {}
  ~EntryLock() { End(); }
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

  // Takes over an entry whose `busy` the caller has set.
  void Begin(std::shared_ptr<Entry> entry) { entry_ = std::move(entry); }
  // Unlocks the entry. The store's mutex must not be held.
  void End() {
    if (entry_ == nullptr) return;
    {
      const MutexLock lock(&store_->mutex_);
      entry_->busy = false;
    }
    entry_ = nullptr;
    store_->entry_unlocked_.NotifyAll();
  }

 private:
  CollectionStore* const store_;
  std::shared_ptr<Entry> entry_;
};

}  // namespace maxsim::store
