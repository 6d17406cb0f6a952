#include "server/store/collection/filter_cache.h"

#include <iterator>
#include <utility>

#include "base/text.h"

namespace maxsim::store {
namespace {

// Estimated bytes per entry for its nodes in the list and in the map, including the overhead of allocation.
constexpr uint64_t kEntryBytes = 256;

std::string KeyOf(uint64_t generation, const std::string& filter) { return Cat(generation, " ", filter); }

}  // namespace

uint64_t FilterCache::AddGeneration() {
  const MutexLock lock(&mutex_);
  return ++num_generations_;
}

void FilterCache::DropGeneration(uint64_t generation) {
  Entries dropped;
  const MutexLock lock(&mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->generation == generation) Drop(entry, dropped);
    entry = next;
  }
}

std::shared_ptr<const MatchingDocuments> FilterCache::Find(uint64_t generation, const std::string& filter) {
  const std::string key = KeyOf(generation, filter);
  const MutexLock lock(&mutex_);
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->documents;
}

void FilterCache::Add(uint64_t generation, const std::string& filter,
                      std::shared_ptr<const MatchingDocuments> documents) {
  Entries added;
  Entry& entry = added.emplace_back();
  entry.generation = generation;
  entry.key = KeyOf(generation, filter);
  entry.num_bytes = entry.key.size() + documents->memory_bytes() + kEntryBytes;
  entry.documents = std::move(documents);
  if (entry.num_bytes > max_bytes_) return;
  Entries dropped;
  const MutexLock lock(&mutex_);
  if (reserve_ != nullptr && reservation_ == nullptr) {
    reservation_ = reserve_();
    if (reservation_ == nullptr) return;
  }
  if (const auto known = by_key_.find(entry.key); known != by_key_.end()) {
    if (known->second->documents->sequence() > entry.documents->sequence()) return;
    Drop(known->second, dropped);
  }
  while (num_bytes_ + entry.num_bytes > max_bytes_) Drop(std::prev(entries_.end()), dropped);
  by_key_.emplace(entry.key, added.begin());
  num_bytes_ += entry.num_bytes;
  entries_.splice(entries_.begin(), added);
}

void FilterCache::Drop(Entries::iterator entry, Entries& dropped) {
  num_bytes_ -= entry->num_bytes;
  by_key_.erase(entry->key);
  dropped.splice(dropped.end(), entries_, entry);
}

uint64_t FilterCache::num_bytes() const {
  const MutexLock lock(&mutex_);
  return num_bytes_;
}

}  // namespace maxsim::store
