// Turns the texts of calls into token vectors, before their requests are validated further and queued: no lane and no
// place in the queue waits for an encoder.
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

// Texts of one call, and how errors name them.
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

// What texts are to be scored against: a collection, as far as its encoder is concerned.
struct TextTarget {
  std::string name;
  int32_t dim = 0;
  std::optional<collection::EncoderIdentity> encoder;  // as the manifest names it

  static TextTarget Of(const store::Collection& collection) {
    return {collection.name(), collection.dim(), collection.manifest().encoder};
  }
};

// Returns FAILED_PRECONDITION if the vectors of `encoder` must not be scored against the collection.
absl::Status CheckTarget(const TextTarget& target, const encoder::EncoderIdentity& encoder);

// Thread-safe.
class TextEncoding {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<EncodedTexts>)>;

  // Takes no texts until it has an encoder.
  TextEncoding();
  // Ends what is in progress with UNAVAILABLE.
  ~TextEncoding();

  // To be called at most once, before any other function. Null: the server takes no texts. The requests that wait for
  // the encoder hold at most `max_held_bytes`, but one of any size.
  void SetEncoder(std::unique_ptr<encoder::Encoder> encoder, uint64_t max_held_bytes);

  // What is known of the encoder; null where there is none.
  std::unique_ptr<v1::EncoderInfo> info() const;

  // Returns what is configured of the encoder, and what it has said of itself so far. FAILED_PRECONDITION: there is no
  // encoder. UNAVAILABLE after Stop.
  absl::StatusOr<encoder::EncoderIdentity> Identity() const;

  // Calls `done` exactly once, with the vectors or with the encoder's error (encoder::Encoder::Encode), which names the
  // field of a text that is refused; RESOURCE_EXHAUSTED also beyond max_held_bytes, UNAVAILABLE also after Stop.
  // Identity must have been OK. `done` runs within this call where the encoder answers at once, as for a query that it
  // has cached, else on a thread that it may hold up for as long as it takes to convert and score the request. The
  // deadline and the span are those of `call`, which need not outlive this call.
  void Encode(Texts texts, const CallContext& call, Done done);

  // Refuses what comes from now on, waits until `deadline` for what is in progress, and ends the rest with UNAVAILABLE.
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
  std::unique_ptr<boost::asio::thread_pool> pool_;  // null where there is no encoder
  // The last member, since the calls that its destructor ends use the others. Calls hold it while they use it; null
  // after Stop.
  std::shared_ptr<encoder::Encoder> encoder_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
