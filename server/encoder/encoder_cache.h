// Caches the token vectors of query texts, up to a number of bytes. Evicts the least recently used ones first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "server/encoder/encoder.h"
#include "server/observability/metrics.h"

namespace maxsim::encoder {

// Thread-safe.
class EncoderCache {
 public:
  // If `max_bytes` is 0, the cache keeps nothing. `metrics` may be null and must outlive the cache.
  EncoderCache(uint64_t max_bytes, Metrics* metrics) : max_bytes_(max_bytes), metrics_(metrics) {}

  // Returns the vectors of the text, or null if they are not cached for this encoder and this `max_tokens`. Counts a
  // hit or a miss.
  std::shared_ptr<const EncodedText> Find(const EncoderIdentity& identity, int32_t max_tokens, std::string_view text);

  // Keeps `encoded`, unless it is larger than the whole cache.
  void Add(const EncoderIdentity& identity, int32_t max_tokens, std::string_view text, EncodedText encoded);

  // Returns an estimate of the memory that all entries take.
  uint64_t num_bytes() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const EncodedText> encoded;
    uint64_t num_bytes = 0;
  };

  void Drop(std::list<Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  Metrics* const metrics_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
  // The views refer to the keys in the entries. The entries do not move, so the views stay valid.
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Answers a request for one query text from a cache if the cache has it; `done` is then called within Encode. Passes
// all other requests to `encoder`. Documents, and requests with several queries, are not cached, because they are
// rarely repeated.
class CachedEncoder final : public Encoder {
 public:
  CachedEncoder(std::unique_ptr<Encoder> encoder, uint64_t max_bytes, Metrics* metrics)
      : cache_(std::make_shared<EncoderCache>(max_bytes, metrics)), encoder_(std::move(encoder)) {}

  EncoderIdentity identity() const override { return encoder_->identity(); }
  std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done) override;

 private:
  const std::shared_ptr<EncoderCache> cache_;
  const std::unique_ptr<Encoder> encoder_;
};

}  // namespace maxsim::encoder
