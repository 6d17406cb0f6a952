// Turns the texts of calls into token vectors. This happens before the rest of a request is validated and queued, so
// that nothing in the queue waits for an encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "collection/encoder_identity.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/encoder/encoder.h"
#include "server/service/call/call_context.h"
#include "server/store/collection/collection.h"

namespace boost::asio {
class thread_pool;
}  // namespace boost::asio

namespace maxsim::service {

// The texts of one call, and the fields that errors name for them.
struct Texts {
  std::vector<std::string> queries = {};
  std::vector<std::string> documents = {};
  std::string query_field = {};  // names the field of a query's text in the call
  std::string document_field = {};
  uint64_t held_bytes = 0;  // size of the request that waits for the encoder
};

// The token vectors of Texts, in the same order.
struct EncodedTexts {
  std::vector<encoder::EncodedText> queries;
  std::vector<encoder::EncodedText> documents;
};

// A collection's name, dimension and encoder, which vectors must suit.
struct TextTarget {
  std::string name;
  int32_t dim = 0;
  std::optional<collection::EncoderIdentity> encoder;  // as in the collection's manifest

  static TextTarget Of(const store::Collection& collection) {
    return {collection.name(), collection.dim(), collection.manifest().encoder};
  }
};

// Returns FAILED_PRECONDITION if these vectors do not suit `target`.
absl::Status CheckTarget(const TextTarget& target, const encoder::EncoderIdentity& encoder);

// Thread-safe.
class TextEncoding {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<EncodedTexts>)>;

  // Refuses texts until SetEncoder has been called with an encoder.
  TextEncoding();
  // Ends calls in progress with UNAVAILABLE.
  ~TextEncoding();

  // Call it at most once, before any other function. If `encoder` is null, the server takes no texts. Requests that
  // wait for the encoder may hold at most `max_held_bytes` together, but a request that waits alone may have any size.
  void SetEncoder(std::unique_ptr<encoder::Encoder> encoder, uint64_t max_held_bytes);

  // Returns what is known of the encoder, or null if there is none.
  std::unique_ptr<v1::EncoderInfo> info() const;

  // Returns the encoder's identity (model, dimension and so on): the configured parts, and what the encoder itself has
  // reported so far. Returns FAILED_PRECONDITION if there is no encoder, UNAVAILABLE after Stop.
  absl::StatusOr<encoder::EncoderIdentity> Identity() const;

  // Calls `done` exactly once, with the vectors or with an error: that of encoder::Encoder::Encode, naming the field if
  // a text is refused; RESOURCE_EXHAUSTED beyond max_held_bytes; UNAVAILABLE after Stop. Identity must have returned
  // OK. If the encoder answers at once, as for a cached query, `done` runs before this returns. Otherwise it runs on a
  // thread of this object, and may convert and score the request there. Uses the deadline and the span of `call`, which
  // may be destroyed when this returns.
  void Encode(Texts texts, const CallContext& call, Done done);

  // Refuses new calls, waits until `deadline` for the calls in progress, and then ends those that are left with
  // UNAVAILABLE.
  void Stop(absl::Time deadline);

 private:
  struct Pending;
  struct Part;
  std::shared_ptr<encoder::Encoder> CurrentEncoder() const;
  absl::Status Admit(uint64_t num_bytes);
  void Begin(const std::shared_ptr<Pending>& pending, encoder::TextKind kind, std::vector<std::string> texts);
  void End(const std::shared_ptr<Pending>& pending);
  void Finish(Pending& pending);

  bool has_encoder_ = false;
  uint64_t max_held_bytes_ = 0;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  int64_t num_pending_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the requests that are pending
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<boost::asio::thread_pool> pool_;  // null if there is no encoder
  // Must be the last member, so that it is destroyed first: its destructor ends calls that use the other members. Calls
  // hold a reference to the encoder while they use it. Null after Stop.
  std::shared_ptr<encoder::Encoder> encoder_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
