// Interface to an encoder, which turns texts into token matrices. The server runs no model itself; implementations call
// another server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collection/encoder_identity.h"

namespace maxsim::encoder {

using collection::EncoderIdentity;

enum class TextKind { kQuery, kDocument };

// The token vectors of one text, row-major [num_tokens, dim], finite and as the encoder gave them.
struct EncodedText {
  int32_t num_tokens = 0;
  int32_t dim = 0;
  std::vector<float> values = {};
  std::vector<std::string> pieces = {};  // each token's text, [num_tokens]; empty if the encoder returns none
  bool is_truncated = false;             // the encoder reports that it cut off the end of the text

  friend bool operator==(const EncodedText&, const EncodedText&) = default;
};

// The trace headers (W3C Trace Context) of a request, which the call to the encoder passes on. "" if the request has
// none.
struct TraceHeaders {
  std::string traceparent;
  std::string tracestate;
};

struct EncodeRequest {
  TextKind kind = TextKind::kQuery;
  std::vector<std::string> texts = {};           // UTF-8, without the encoder's prefix; at least one
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow's clock
  int32_t max_tokens = 0;  // an answer with more for one text is an error; 0: only the encoder's own bound applies
  TraceHeaders trace = {};
};

// A handle to cancel a request with. Dropping it does not affect the request. It may outlive the encoder.
class Cancellation {
 public:
  virtual ~Cancellation() = default;

  // Ends the request with CANCELLED unless it has already ended. Never blocks. Thread-safe and idempotent.
  virtual void Cancel() = 0;
};

// Thread-safe. A request that is in progress when the encoder is destroyed ends with UNAVAILABLE before the destructor
// returns.
class Encoder {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<EncodedText>>)>;

  virtual ~Encoder() = default;

  // Returns the encoder's identity (model, fingerprint, dimension and so on): what is configured, and what the encoder
  // has reported so far.
  virtual EncoderIdentity identity() const = 0;

  // Never blocks. Calls `done` exactly once, with one matrix per text in the order of the texts, or with an error:
  //   INVALID_ARGUMENT     a text is not UTF-8, has too many tokens, or the encoder refuses it
  //   RESOURCE_EXHAUSTED   the queue is full
  //   DEADLINE_EXCEEDED, CANCELLED
  //   FAILED_PRECONDITION  the token, URL or model name is wrong, or the encoder is not the configured one
  //   UNAVAILABLE          the encoder does not answer in time, its answer is unreadable, or the encoder has
  //                        changed since its last answer; see RetryAfter
  //   INTERNAL             the answer is readable, but its vectors cannot be scored
  // Errors never quote the encoder's own error messages; these go only to the log.
  // `done` may run within this call or on a thread that serves other requests too, so it must not block.
  virtual std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done) = 0;
};

}  // namespace maxsim::encoder
