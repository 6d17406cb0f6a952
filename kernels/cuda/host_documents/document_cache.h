// Decides which listed documents a region of device memory keeps. This code makes no CUDA calls: DocumentTransfer
// copies the documents that were admitted.
//
// The memory is written like a log, one segment after another, and a new segment overwrites the oldest one. A document
// is admitted at its second miss, if the first one was not too long ago. So a single pass over many documents leaves
// the cache unchanged. If a document that had a hit is overwritten, the cache remembers it and admits it again at its
// next miss.
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
  // A Key names a document of any host documents that there are or were.
  struct Key {
    uint64_t documents = 0;  // HostDocuments::id
    uint32_t ordinal = 0;

    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.documents, key.ordinal);
    }
  };

  // The cache has `capacity_bytes` beginning at byte `begin` of the memory that its offsets refer to. With 0 bytes it
  // never holds anything.
  DocumentCache(int64_t begin, int64_t capacity_bytes);

  // Begins a pass. The device reads all documents of a pass together, so the cache overwrites no document that this
  // pass has found or admitted until the next pass begins.
  void BeginPass() { ++pass_; }

  // Empties the cache. Call it if documents were admitted but may not have been copied.
  void Clear();

  // Returns the byte where the document begins, or nullopt if the cache does not hold the document. If a document that
  // was found is overwritten later, the cache admits it again at its next miss.
  std::optional<int64_t> Find(const Key& key);

  // Decides after a miss whether to admit the document, which has `bytes` bytes. Returns the byte, a multiple of
  // `alignment`, to which the caller must copy it, or nullopt if the document is not admitted.
  std::optional<int64_t> Admit(const Key& key, int64_t bytes, int64_t alignment);

  // Returns whether documents that were admitted since BeginPass overwrite documents that the device may still be
  // reading for earlier passes.
  bool Overwrites() const { return overwriting_pass_ == pass_; }

  size_t num_documents() const { return locations_.size(); }

 private:
  struct Location {
    int64_t offset;    // byte where the document lies
    uint32_t segment;  // index into segments_
    bool hit;          // whether it was found since it was admitted
  };
  struct Segment {
    std::vector<Key> keys;
    uint64_t pass = 0;  // the last pass that found or admitted documents in it
  };

  bool WasMissed(const Key& key);
  void Remember(const Key& key);
  bool NextSegment();

  const int64_t begin_;
  const int64_t segment_bytes_;
  std::vector<Segment> segments_;
  absl::flat_hash_map<Key, Location> locations_;
  uint32_t current_ = 0;           // the segment that is being written
  int64_t end_ = 0;                // bytes written of it
  uint64_t pass_ = 1;              // number of the current pass
  uint64_t overwriting_pass_ = 0;  // number of the last pass whose admissions overwrote documents
  // Fingerprints, indexed by hash, of documents that were missed, and of documents that were overwritten after hits. A
  // newer fingerprint replaces an older one with the same index.
  std::vector<uint32_t> missed_;
};

}  // namespace maxsim::cuda
