// What turns texts into token matrices. The server runs no model: an implementation asks one that runs elsewhere.
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
  std::vector<std::string> pieces = {};  // each token's text, [num_tokens], or empty where the encoder names none
  bool is_truncated = false;             // the encoder says that it cut the end of the text

  friend bool operator==(const EncodedText&, const EncodedText&) = default;
};

// The headers of the trace that a request belongs to (W3C Trace Context), which the call that it goes into carries on;
// "" for none.
struct TraceHeaders {
  std::string traceparent;
  std::string tracestate;
};

struct EncodeRequest {
  TextKind kind = TextKind::kQuery;
  std::vector<std::string> texts = {};           // UTF-8, without the encoder's prefix; at least one
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow's clock
  int32_t max_tokens = 0;  // an answer with more for one text is an error; 0: the encoder's own bound alone
  TraceHeaders trace = {};
};

// A request that has been handed over. May be dropped, which changes nothing, and may outlive the encoder.
class Cancellation {
 public:
  virtual ~Cancellation() = default;

  // Ends the request with CANCELLED, unless it has ended. Never blocks; from any thread, any number of times.
  virtual void Cancel() = 0;
};

// Thread-safe. A request that is in progress when the encoder is destroyed ends with UNAVAILABLE before the destructor
// returns.
class Encoder {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<EncodedText>>)>;

  virtual ~Encoder() = default;

  // What is configured, and what the encoder has said of itself so far.
  virtual EncoderIdentity identity() const = 0;

  // Never blocks. Calls `done` exactly once, with one matrix a text in their order, or with an error:
  //   INVALID_ARGUMENT     a text is not UTF-8, has too many tokens, or the encoder refuses it
  //   RESOURCE_EXHAUSTED   the queue is full
  //   DEADLINE_EXCEEDED, CANCELLED
  //   FAILED_PRECONDITION  the encoder wants another token, URL or model name, or is another one than it has been
  //   UNAVAILABLE          it does not answer, or too late, or with what is no answer; see RetryAfter
  //   INTERNAL             its answer holds what cannot be scored
  // Errors never quote the encoder's own words: only the log has those.
  // `done` may run on a thread that serves other requests as well, or within this call, and must not block.
  virtual std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done) = 0;
};

}  // namespace maxsim::encoder
