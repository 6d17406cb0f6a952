// Finds the documents of a part by the slots (hash values) of their ids, for filters with an in_slots
// (collection/filters/filter.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "collection/filters/ordinal_bitmap.h"
#include "collection/slots.h"

namespace maxsim::store {

struct Part;

// A bit for each document of a part: bit i of word w is document 64 * w + i.
using SlotMask = std::shared_ptr<const std::vector<uint64_t>>;

// Remembers which documents of a part have ids in a range of slots, so that filters do not hash all ids again.
// Thread-safe.
//
// All snapshots and generations that have the part share this object. The slot of an id never changes, so the mask of a
// shard stays valid, and the mask of a segment only grows with the segment. A mask takes one bit for each document.
class SlotMasks {
 public:
  // The number of ranges whose masks are kept. A further range replaces the one that was used least recently. A router
  // asks for one range, or for two while slots move from one group of servers to another.
  static constexpr size_t kMaxRanges = 2;

  // Returns a mask of the documents of `part` whose ids are in `slots`. Bits beyond these documents may be set, too.
  // `part` must be the part that this object belongs to, in any snapshot. Hashes the ids that no earlier call for this
  // range has hashed, which takes about 30 ns each. Calls `check` (may be null) before every 65,536 ids and returns its
  // error. The next call for the range then continues where this one stopped.
  absl::StatusOr<SlotMask> Find(const Part& part, const collection::SlotRange& slots, const StopCheck& check);

  uint64_t memory_bytes() const;

 private:
  struct Entry {
    collection::SlotRange slots;
    int64_t num_documents = 0;  // that the mask covers; further bits are 0
    SlotMask mask;
  };

  // Returns the entry of the range and makes it the first one; null if there is none.
  const Entry* Touch(const collection::SlotRange& slots) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps an entry, unless the known one covers as many documents.
  void Keep(Entry entry);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
};

// Reads the masks of one part while one filter is evaluated. For one thread.
class SlotReader {
 public:
  // Both must outlive the object. `check` may be null.
  SlotReader(const Part& part, const StopCheck& check) : part_(part), check_(check) {}

  // Returns which of the documents first .. first + count - 1 of the part have ids in `slots`. The result's ordinals
  // count from `first`. Asks the part's SlotMasks once for each range; if the part has no SlotMasks, hashes the ids
  // itself. Returns the error of `check`.
  absl::StatusOr<collection::OrdinalBitmap> Find(const collection::SlotRange& slots, int64_t first, int64_t count);

 private:
  const Part& part_;
  const StopCheck& check_;
  std::vector<std::pair<collection::SlotRange, SlotMask>> masks_;  // that were read
};

}  // namespace maxsim::store
