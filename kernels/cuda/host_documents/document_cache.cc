#include "kernels/cuda/host_documents/document_cache.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace maxsim::cuda {
namespace {

// Number of segments. With this many, making room discards only a small part of the cache. With more, long documents
// might not fit into a segment.
constexpr int64_t kSegments = 32;

// The cache remembers one missed document per kBytesOfMemory bytes of its capacity: several times as many as fit in it.
constexpr int64_t kBytesOfMemory = 4096;
constexpr size_t kLeastMemories = 1024;

struct Fingerprint {
  size_t slot;
  uint32_t tag;  // never 0, which is an empty slot
};

Fingerprint Of(const DocumentCache::Key& key, size_t slots) {
  const uint64_t hash = absl::Hash<DocumentCache::Key>()(key);
  return {hash % slots, static_cast<uint32_t>(hash >> 32) | 1};
}

}  // namespace

DocumentCache::DocumentCache(int64_t begin, int64_t capacity_bytes)
    : begin_(begin), segment_bytes_(capacity_bytes / kSegments) {
  if (segment_bytes_ == 0) return;
  segments_.resize(kSegments);
  missed_.resize(std::max(static_cast<size_t>(capacity_bytes / kBytesOfMemory), kLeastMemories));
}

void DocumentCache::Clear() {
  for (Segment& segment : segments_) segment.keys.clear();
  locations_.clear();
}

std::optional<int64_t> DocumentCache::Find(const Key& key) {
  if (locations_.empty()) return std::nullopt;
  const auto found = locations_.find(key);
  if (found == locations_.end()) return std::nullopt;
  found->second.hit = true;
  segments_[found->second.segment].pass = pass_;
  return found->second.offset;
}

bool DocumentCache::WasMissed(const Key& key) {
  const Fingerprint fingerprint = Of(key, missed_.size());
  return missed_[fingerprint.slot] == fingerprint.tag;
}

void DocumentCache::Remember(const Key& key) {
  const Fingerprint fingerprint = Of(key, missed_.size());
  missed_[fingerprint.slot] = fingerprint.tag;
}

// Begins to overwrite the next segment and forgets its documents. Returns false, and does nothing, if the current pass
// reads from that segment.
bool DocumentCache::NextSegment() {
  const auto next = static_cast<uint32_t>((current_ + 1) % segments_.size());
  Segment& segment = segments_[next];
  if (segment.pass == pass_) return false;
  if (!segment.keys.empty()) overwriting_pass_ = pass_;
  for (const Key& key : segment.keys) {
    const auto location = locations_.find(key);
    if (location->second.hit) Remember(key);
    locations_.erase(location);
  }
  segment.keys.clear();
  current_ = next;
  end_ = 0;
  return true;
}

std::optional<int64_t> DocumentCache::Admit(const Key& key, int64_t bytes, int64_t alignment) {
  if (segments_.empty()) return std::nullopt;
  if (!WasMissed(key)) {
    Remember(key);
    return std::nullopt;
  }
  const auto location = [&] {
    const int64_t first = begin_ + current_ * segment_bytes_ + end_;
    return (first + alignment - 1) / alignment * alignment;
  };
  const auto fits = [&](int64_t offset) { return offset + bytes <= begin_ + (current_ + 1) * segment_bytes_; };
  int64_t offset = location();
  if (!fits(offset)) {
    if (bytes + alignment > segment_bytes_ || !NextSegment()) return std::nullopt;
    offset = location();
  }
  end_ = offset + bytes - begin_ - current_ * segment_bytes_;
  Segment& segment = segments_[current_];
  segment.pass = pass_;
  segment.keys.push_back(key);
  locations_[key] = {offset, current_, false};
  return offset;
}

}  // namespace maxsim::cuda
