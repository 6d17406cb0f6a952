#include "server/encoder/encoder_cache.h"

#include <utility>

#include "base/text.h"

namespace maxsim::encoder {
namespace {

// Estimated memory per entry for the nodes of the list and of the map, including the overhead of their allocations.
constexpr uint64_t kEntryBytes = 256;

// The key has the lengths of all strings before the strings, which may hold any bytes. So different inputs never have
// the same key.
std::string KeyOf(const EncoderIdentity& identity, int32_t max_tokens, std::string_view text) {
  return Cat(identity.model.size(), " ", identity.fingerprint.size(), " ", identity.query_prefix.size(), " ",
             identity.dim, " ", identity.query_length, " ", identity.query_expansion ? 1 : 0, " ", max_tokens, " ",
             identity.model, identity.fingerprint, identity.query_prefix, text);
}

class NoCancellation final : public Cancellation {
 public:
  void Cancel() override {}
};

}  // namespace

std::shared_ptr<const EncodedText> EncoderCache::Find(const EncoderIdentity& identity, int32_t max_tokens,
                                                      std::string_view text) {
  if (max_bytes_ == 0) return nullptr;
  const std::string key = KeyOf(identity, max_tokens, text);
  std::shared_ptr<const EncodedText> found;
  {
    const MutexLock lock(&mutex_);
    if (const auto known = by_key_.find(key); known != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, known->second);
      found = known->second->encoded;
    }
  }
  if (metrics_ != nullptr) metrics_->CountEncoderCacheLookup(found != nullptr);
  return found;
}

void EncoderCache::Add(const EncoderIdentity& identity, int32_t max_tokens, std::string_view text,
                       EncodedText encoded) {
  if (max_bytes_ == 0) return;
  Entry entry;
  entry.key = KeyOf(identity, max_tokens, text);
  entry.num_bytes = entry.key.size() + encoded.values.size() * sizeof(float) + kEntryBytes;
  for (const std::string& piece : encoded.pieces) entry.num_bytes += sizeof(piece) + piece.size();
  if (entry.num_bytes > max_bytes_) return;
  entry.encoded = std::make_shared<const EncodedText>(std::move(encoded));
  uint64_t bytes = 0;
  {
    const MutexLock lock(&mutex_);
    if (const auto known = by_key_.find(entry.key); known != by_key_.end()) Drop(known->second);
    while (num_bytes_ + entry.num_bytes > max_bytes_) Drop(std::prev(entries_.end()));
    num_bytes_ += entry.num_bytes;
    entries_.push_front(std::move(entry));
    by_key_.emplace(entries_.front().key, entries_.begin());
    bytes = num_bytes_;
  }
  if (metrics_ != nullptr) metrics_->SetEncoderCacheBytes(bytes);
}

void EncoderCache::Drop(std::list<Entry>::iterator entry) {
  num_bytes_ -= entry->num_bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

uint64_t EncoderCache::num_bytes() const {
  const MutexLock lock(&mutex_);
  return num_bytes_;
}

std::shared_ptr<Cancellation> CachedEncoder::Encode(EncodeRequest request, Done done) {
  if (request.kind != TextKind::kQuery || request.texts.size() != 1) {
    return encoder_->Encode(std::move(request), std::move(done));
  }
  EncoderIdentity identity = encoder_->identity();
  const int32_t max_tokens = request.max_tokens;
  if (const auto known = cache_->Find(identity, max_tokens, request.texts.front())) {
    done(std::vector<EncodedText>{*known});
    return std::make_shared<NoCancellation>();
  }
  std::string text = request.texts.front();
  // The result is cached only if the encoder's identity is still the one in the key. The identity changes when the
  // encoder first reports its model.
  return encoder_->Encode(std::move(request),
                          [this_encoder = encoder_.get(), cache = cache_, identity = std::move(identity), max_tokens,
                           text = std::move(text), done = std::move(done)](auto result) mutable {
                            if (result.ok() && this_encoder->identity() == identity) {
                              cache->Add(identity, max_tokens, text, result->front());
                            }
                            done(std::move(result));
                          });
}

}  // namespace maxsim::encoder
