#include "server/service/request/text_encoding.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "collection/encoder_identity.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/request/info.h"

namespace maxsim::service {
namespace {

using encoder::EncodedText;
using encoder::TextKind;

// The number of threads that continue requests (validate, convert and submit them) after their texts have been encoded.
constexpr size_t kNumThreads = 2;

// The longest time that Stop waits. It is longer than an encoder may take, and so short that a time plus it does not
// overflow.
constexpr absl::Duration kMaxStopTime = absl::Hours(24);

// The retry delay for a request that is refused because the requests that wait for the encoder hold too much memory.
constexpr absl::Duration kFullRetryDelay = absl::Seconds(1);

absl::Status Draining() { return absl::UnavailableError("the server is draining"); }

// Puts the field of a refused text into the error. Keeps other errors.
absl::Status InField(std::string_view field, const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return InvalidField(field, std::string(status.message()));
}

}  // namespace

// The texts of one call. After its last encoder call, Finish runs.
struct TextEncoding::Pending {
  Done done;
  absl::Time deadline;
  tracing::Span span;
  encoder::TraceHeaders trace;
  uint64_t held_bytes = 0;
  std::string query_field;
  std::string document_field;
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> num_parts = 1;  // calls to the encoder, and Encode itself
  absl::Status failure;            // of Encode itself
  // Each is written by one thread, and read when num_parts is 0.
  absl::StatusOr<std::vector<EncodedText>> queries = NoMemory();
  absl::StatusOr<std::vector<EncodedText>> documents = NoMemory();
};

// One call to the encoder. The destructor reports the call's end, even if the encoder dropped the callback because
// memory ran out.
struct TextEncoding::Part {
  Part(TextEncoding* owner, std::shared_ptr<Pending> waiting) : encoding(owner), pending(std::move(waiting)) {
    ++pending->num_parts;
  }
  ~Part() { encoding->End(pending); }

  TextEncoding* const encoding;
  const std::shared_ptr<Pending> pending;
};

void TextEncoding::SetEncoder(std::unique_ptr<encoder::Encoder> encoder, uint64_t max_held_bytes) {
  has_encoder_ = encoder != nullptr;
  max_held_bytes_ = max_held_bytes;
  if (has_encoder_) pool_ = std::make_unique<boost::asio::thread_pool>(kNumThreads);
  const MutexLock lock(&mutex_);
  encoder_ = std::move(encoder);
}

std::shared_ptr<encoder::Encoder> TextEncoding::CurrentEncoder() const {
  const MutexLock lock(&mutex_);
  return encoder_;
}

TextEncoding::TextEncoding() = default;

TextEncoding::~TextEncoding() { Stop(absl::InfinitePast()); }

std::unique_ptr<v1::EncoderInfo> TextEncoding::info() const {
  const std::shared_ptr<encoder::Encoder> encoder = CurrentEncoder();
  if (encoder == nullptr) return nullptr;
  return std::make_unique<v1::EncoderInfo>(ToProto(encoder->identity()));
}

absl::StatusOr<encoder::EncoderIdentity> TextEncoding::Identity() const {
  if (!has_encoder_) {
    return absl::FailedPreconditionError(
        "the request has texts, but this server has no encoder (encoder.url): it takes token vectors");
  }
  const std::shared_ptr<encoder::Encoder> encoder = CurrentEncoder();
  if (encoder == nullptr) return Draining();
  return encoder->identity();
}

absl::Status CheckTarget(const TextTarget& target, const encoder::EncoderIdentity& encoder) {
  if (target.encoder.has_value()) {
    absl::Status status = collection::CheckSameEncoder(*target.encoder, encoder);
    if (!status.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("collection ", target.name, ": ", status.message()));
    }
  }
  if (encoder.dim == 0 || encoder.dim == target.dim) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("collection ", target.name, " has dimension ", target.dim,
                                                    ", but the vectors of the encoder ",
                                                    collection::DescribeEncoder(encoder), " have ", encoder.dim));
}

absl::Status TextEncoding::Admit(uint64_t num_bytes) {
  const MutexLock lock(&mutex_);
  if (is_stopped_) return Draining();
  if (num_pending_ > 0 && held_bytes_ + num_bytes > max_held_bytes_) {
    absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat("the requests that wait for the encoder hold ", held_bytes_, " bytes, this one has ", num_bytes,
                     "; the limit is ", max_held_bytes_, " (batching.max_queue_bytes)"));
    client::SetRetryAfter(kFullRetryDelay, status);
    return status;
  }
  ++num_pending_;
  held_bytes_ += num_bytes;
  return absl::OkStatus();
}

void TextEncoding::Encode(Texts texts, const CallContext& call, Done done) {
  tracing::Span span = StartEncode(call.span);
  std::shared_ptr<Pending> pending;
  absl::Status admitted = Guarded([&] {
    pending = std::make_shared<Pending>();
    return Admit(texts.held_bytes);
  });
  if (!admitted.ok()) {
    EndCall(admitted, span);
    return done(std::move(admitted));
  }
  pending->done = std::move(done);
  pending->deadline = call.deadline;
  pending->trace = HeadersOf(span);
  pending->span = std::move(span);
  pending->held_bytes = texts.held_bytes;
  pending->query_field = std::move(texts.query_field);
  pending->document_field = std::move(texts.document_field);
  pending->failure = Guarded([&] {
    Begin(pending, TextKind::kQuery, std::move(texts.queries));
    Begin(pending, TextKind::kDocument, std::move(texts.documents));
    return absl::OkStatus();
  });
  End(pending);
}

void TextEncoding::Begin(const std::shared_ptr<Pending>& pending, TextKind kind, std::vector<std::string> texts) {
  absl::StatusOr<std::vector<EncodedText>>& result = kind == TextKind::kQuery ? pending->queries : pending->documents;
  if (texts.empty()) {
    result = std::vector<EncodedText>();
    return;
  }
  const std::shared_ptr<encoder::Encoder> encoder = CurrentEncoder();
  if (encoder == nullptr) {
    result = Draining();
    return;
  }
  auto part = std::make_shared<Part>(this, pending);
  encoder->Encode({.kind = kind, .texts = std::move(texts), .deadline = pending->deadline, .trace = pending->trace},
                  [part = std::move(part), &result](absl::StatusOr<std::vector<EncodedText>> encoded) mutable {
                    result = std::move(encoded);
                    part.reset();
                  });
}

void TextEncoding::End(const std::shared_ptr<Pending>& pending) {
  if (--pending->num_parts > 0) return;
  if (std::this_thread::get_id() == pending->caller) return Finish(*pending);
  // The encoder's thread must go on reading answers, so use another one.
  const absl::Status status = Guarded([&] {
    boost::asio::post(*pool_, [this, pending] { Finish(*pending); });
    return absl::OkStatus();
  });
  if (status.ok()) return;
  pending->queries = status;
  Finish(*pending);
}

void TextEncoding::Finish(Pending& pending) {
  const absl::Cleanup leave = [this, held_bytes = pending.held_bytes] {
    const MutexLock lock(&mutex_);
    held_bytes_ -= held_bytes;
    if (--num_pending_ == 0) changed_.NotifyAll();
  };
  absl::Status status = pending.failure;
  if (status.ok()) status = InField(pending.query_field, pending.queries.status());
  if (status.ok()) status = InField(pending.document_field, pending.documents.status());
  EndCall(status, pending.span);
  if (!status.ok()) return pending.done(std::move(status));
  pending.done(EncodedTexts{*std::move(pending.queries), *std::move(pending.documents)});
}

void TextEncoding::Stop(absl::Time deadline) {
  std::shared_ptr<encoder::Encoder> encoder;
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    const absl::Duration longest = std::min(deadline - MonotonicNow(), kMaxStopTime);
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(longest);
    while (num_pending_ > 0 && changed_.WaitUntil(lock, end)) {
    }
    encoder = std::move(encoder_);
  }
  // The encoder's destructor ends its calls. If a call still uses the encoder, that call destroys the encoder later.
  encoder.reset();
  if (pool_ != nullptr) pool_->join();
}

}  // namespace maxsim::service
