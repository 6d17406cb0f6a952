// Turns the texts of requests into token vectors, before they are validated further and queued: no lane and no place in
// the queue waits for an encoder.
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
#include "server/service/call/limits.h"
#include "server/service/request/truncated_texts.h"
#include "server/store/collection/collection.h"

namespace boost::asio {
class thread_pool;
}  // namespace boost::asio

namespace maxsim::service {

// True where a query or an inline document is a text.
bool HasTexts(const v1::RerankRequest& request);

// A request all of whose texts have become F32 token matrices.
struct EncodedRequest {
  v1::RerankRequest request;
  std::vector<std::vector<std::string>> query_pieces;  // [queries] each token's text; empty where it is not known
  uint64_t num_tokens = 0;                             // token vectors that the encoder made
  TruncatedTexts truncated;
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

// Thread-safe.
class TextEncoding {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<EncodedRequest>)>;

  // Takes no texts until it has an encoder.
  TextEncoding();
  // Ends what is in progress with UNAVAILABLE.
  ~TextEncoding();

  // To be called at most once, before any other function. Null: the server takes no texts. The requests that wait for
  // the encoder hold at most `max_held_bytes`, but one of any size.
  void SetEncoder(std::unique_ptr<encoder::Encoder> encoder, uint64_t max_held_bytes);

  // What is known of the encoder; null where there is none.
  std::unique_ptr<v1::EncoderInfo> info() const;

  // Says whether the request's texts may be scored against a collection (null: without one), as far as that is known
  // before they are encoded. FAILED_PRECONDITION: there is no encoder, or the collection is another one's.
  // INVALID_ARGUMENT: a query's text is blank, or there are too many texts. UNAVAILABLE after Stop.
  absl::Status Check(const v1::RerankRequest& request, const TextTarget* target, const RequestLimits& limits) const;

  // Calls `done` exactly once, with the encoded request or with the encoder's error (encoder::Encoder::Encode), which
  // names the field of a text that is refused; RESOURCE_EXHAUSTED also beyond max_held_bytes, UNAVAILABLE also after
  // Stop. Check must have been OK. The encoder does not get documents that are blank: they become one token of zeros,
  // whose similarity with any token is 0. `done` runs within this call where the encoder answers at once, as for a
  // query that it has cached, else on a thread that it may hold up for as long as it takes to convert and score the
  // request. `deadline` is of MonotonicNow(), `trace` what the encoder is told of the call's trace.
  void Encode(v1::RerankRequest request, absl::Time deadline, encoder::TraceHeaders trace, Done done);

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
