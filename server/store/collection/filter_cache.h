// Remembers which documents match each filter, so that a repeated filter is not evaluated again. Bounded in bytes; the
// least recently used entries are dropped first.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/store/collection/matching_documents.h"
#include "server/store/memory/memory_ledger.h"

namespace maxsim::store {

// A store has two of these caches: one for all collections that declare fields, and one for those without fields, whose
// filters can only have in_slots. Thread-safe.
class FilterCache {
 public:
  // Reserves memory in the ledger. Returns null if there is none.
  using Reserve = std::function<std::shared_ptr<const Reservation>()>;

  // `reservation` (may be null) reserves `max_bytes` in the ledger for as long as the cache lives. If `reserve` is not
  // null, the cache calls it to make this reservation when the first entry is added. While `reserve` returns null,
  // nothing is stored.
  FilterCache(uint64_t max_bytes, std::shared_ptr<const Reservation> reservation, Reserve reserve = nullptr)
      : max_bytes_(max_bytes), reserve_(std::move(reserve)), reservation_(std::move(reservation)) {}

  uint64_t max_bytes() const { return max_bytes_; }

  // Returns a new number for a generation. Find and Add take this number.
  uint64_t AddGeneration();
  // Forgets all filters of a generation.
  void DropGeneration(uint64_t generation);

  // Returns the matching documents that Add stored for this generation and filter, or null. If Add stored those of
  // several snapshots, returns those of the latest one. `filter` is the text of the filter's canonical form.
  std::shared_ptr<const MatchingDocuments> Find(uint64_t generation, const std::string& filter);
  // Stores the matching documents. Does nothing if they are larger than the whole cache, if the cache already has the
  // filter's documents of a later snapshot, or if no memory could be reserved.
  void Add(uint64_t generation, const std::string& filter, std::shared_ptr<const MatchingDocuments> documents);

  // Returns an estimate of the memory that all entries take.
  uint64_t num_bytes() const;

 private:
  struct Entry {
    uint64_t generation = 0;
    std::string key;
    std::shared_ptr<const MatchingDocuments> documents;
    uint64_t num_bytes = 0;
  };
  using Entries = std::list<Entry>;

  // Moves an entry to `dropped`, so that it can be freed outside of the lock.
  void Drop(Entries::iterator entry, Entries& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  const Reserve reserve_;
  mutable Mutex mutex_;
  std::shared_ptr<const Reservation> reservation_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_generations_ ABSL_GUARDED_BY(mutex_) = 0;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
  // The keys view the strings of the entries, which stay valid because entries of a list do not move.
  std::unordered_map<std::string_view, Entries::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace maxsim::store
