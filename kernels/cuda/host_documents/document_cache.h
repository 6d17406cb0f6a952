// Which documents a region of device memory holds: hot ones of those that calls name by lists. Plain host code that
// decides; others copy.
//
// Policy: memory is written like a log, segment behind segment. A document is admitted when it is missed for the second
// time within some time, so that one pass over many documents leaves the cache as it was, and the oldest segment makes
// room for a new one. Documents that were hit since they were admitted are remembered when they go: their next miss
// admits them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace maxsim::cuda {

// Not thread-safe.
class DocumentCache {
 public:
  // A document of any collection there is or was.
  struct Key {
    uint64_t documents = 0;  // HostDocuments::id
    uint32_t ordinal = 0;

    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.documents, key.ordinal);
    }
  };

  // `capacity_bytes` from `begin` on, counted from wherever the offsets are wanted from. 0: nothing is ever held.
  DocumentCache(int64_t begin, int64_t capacity_bytes);

  // A pass is what the device reads together: nothing that a pass has found or admitted is overwritten by it.
  void BeginPass() { ++pass_; }

  // Forgets where every document lies: what was admitted may not have been copied.
  void Clear();

  // Where the document lies; nullopt where it is not here.
  std::optional<int64_t> Find(const Key& key);

  // After a miss: where to copy the document to, at a multiple of `alignment`; nullopt where it is not admitted.
  std::optional<int64_t> Admit(const Key& key, int64_t bytes, int64_t alignment);

  // True when this pass's admissions overwrite what passes before it may still be reading.
  bool Overwrites() const { return overwriting_pass_ == pass_; }

  size_t num_documents() const { return locations_.size(); }

 private:
  struct Location {
    int64_t offset;
    uint32_t segment;
    bool hit;
  };
  struct Segment {
    std::vector<Key> keys;
    uint64_t pass = 0;  // the last one that used it
  };

  bool WasMissed(const Key& key);
  void Remember(const Key& key);
  bool NextSegment();

  const int64_t begin_;
  const int64_t segment_bytes_;
  std::vector<Segment> segments_;
  absl::flat_hash_map<Key, Location> locations_;
  uint32_t current_ = 0;
  int64_t end_ = 0;  // of what is written in the current segment, from the segment's begin
  uint64_t pass_ = 1;
  uint64_t overwriting_pass_ = 0;
  std::vector<uint32_t>
      missed_;  // fingerprints of documents that were missed or hot, by hash; newer ones replace older
};

}  // namespace maxsim::cuda
