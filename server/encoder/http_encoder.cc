#include "server/encoder/http_encoder.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "client/status.h"
#include "server/encoder/answer.h"
#include "server/encoder/circuit_breaker.h"
#include "server/encoder/http_connection.h"
#include "server/encoder/http_peer.h"
#include "server/encoder/text_queue.h"
#include "server/observability/log_event.h"

namespace maxsim::encoder {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Result = absl::StatusOr<std::vector<EncodedText>>;
using Request = std::shared_ptr<WaitingRequest>;

// An answer up to this size is read on the loop's thread, which takes about a millisecond as JSON.
constexpr size_t kSmallAnswerBytes = size_t{64} << 10;

// Reads one answer while the loop's thread goes on.
constexpr size_t kReadingThreads = 2;

constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);  // so that no time overflows the clock

absl::Status CheckTexts(const EncodeRequest& request) {
  if (request.texts.empty()) return absl::InvalidArgumentError("no text to encode");
  for (size_t idx = 0; idx < request.texts.size(); ++idx) {
    if (!IsUtf8(request.texts[idx])) return Invalid("text ", idx, " is not UTF-8");
  }
  return absl::OkStatus();
}

}  // namespace

// Everything but Encode, identity and Stop runs on the loop's thread.
class HttpEncoder::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(HttpEncoderOptions options, HttpPeer peer, Metrics* metrics)
      : options_(std::move(options)),
        peer_(std::move(peer)),
        metrics_(metrics),
        where_(Cat("encoder ", peer_.url.is_tls ? "https://" : "http://", peer_.url.HostHeader(), peer_.url.base,
                   EncodePath(options_.dialect))),
        identity_(options_.identity),
        queue_(static_cast<size_t>(options_.max_batch_texts), options_.window),
        breaker_(options_.breaker_failures, options_.breaker_cooldown),
        is_known_(options_.dialect != Dialect::kMaxsim) {
    thread_ = std::thread([this] { Run(); });
    asio::post(loop_, [this] {
      ReportState();
      if (!is_known_) AskWho();
    });
  }

  void Stop() {
    asio::post(loop_, [this] {
      EndAll(absl::UnavailableError("the server is shutting down"));
      for (const std::shared_ptr<HttpConnection>& connection : connections_) connection->Close();
      loop_.stop();
    });
    thread_.join();
    readers_.join();
  }

  EncoderIdentity identity() const {
    const MutexLock lock(&identity_mutex_);
    return identity_;
  }

  std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done) {
    if (absl::Status status = CheckTexts(request); !status.ok()) {
      done(status);
      return std::make_shared<Handle>(nullptr, nullptr);
    }
    auto waiting = std::make_shared<WaitingRequest>(&loop_, std::move(request), std::move(done));
    asio::post(loop_, [this, waiting] { Admit(waiting); });
    return std::make_shared<Handle>(shared_from_this(), waiting);
  }

 private:
  class Handle final : public Cancellation {
   public:
    Handle(std::weak_ptr<Impl> impl, std::weak_ptr<WaitingRequest> request)
        : impl_(std::move(impl)), request_(std::move(request)) {}
    Handle(std::nullptr_t, std::nullptr_t) {}

    void Cancel() override {
      const std::shared_ptr<Impl> impl = impl_.lock();
      Request request = request_.lock();
      if (impl == nullptr || request == nullptr) return;
      asio::post(impl->loop_, [self = impl.get(), request = std::move(request)] {
        self->End(request, absl::CancelledError("the request is cancelled"));
      });
    }

   private:
    const std::weak_ptr<Impl> impl_;
    const std::weak_ptr<WaitingRequest> request_;
  };

  // Texts that are sent together.
  struct Call {
    std::vector<TextRange> ranges;
    HttpCall http;
    absl::Time began;
    bool is_second_try = false;

    size_t num_texts() const {
      size_t count = 0;
      for (const TextRange& range : ranges) count += range.count;
      return count;
    }
  };
  using CallPtr = std::shared_ptr<Call>;

  void Run() {
    NameThisThread("encoder");
    while (true) {
      try {
        loop_.run();
        return;
      } catch (const std::exception& exception) {
        log::Write(spdlog::level::err, "encoder_exception", {{"error", exception.what()}});
        EndAll(absl::ResourceExhaustedError("no memory to encode texts"));
      }
    }
  }

  // ---- Requests.

  void Admit(const Request& waiting) {
    const absl::Time now = MonotonicNow();
    waiting_.insert(waiting);
    num_bytes_ += waiting->num_bytes;
    if (absl::Status status = CheckRoom(*waiting); !status.ok()) return End(waiting, status, /*queued=*/false);
    if (absl::Status status = breaker_.Admit(now); !status.ok()) {
      client::SetRetryAfter(std::max(breaker_.open_until() - now, absl::Milliseconds(100)), status);
      return End(waiting, status, /*queued=*/false);
    }
    if (waiting->request.deadline <= now) {
      return End(waiting, absl::DeadlineExceededError("the deadline passed before the text was encoded"), false);
    }
    if (waiting->request.deadline < now + kLongestWait) {
      waiting->deadline.expires_after(absl::ToChronoNanoseconds(waiting->request.deadline - now));
      waiting->deadline.async_wait([this, waiting](Error error) {
        if (error) return;
        End(waiting, absl::DeadlineExceededError("the deadline passed while the text was encoded"));
      });
    }
    queue_.Add(waiting, now);
    Pump();
  }

  absl::Status CheckRoom(const WaitingRequest& waiting) const {
    const auto count = static_cast<int64_t>(waiting.request.texts.size());
    if (static_cast<int64_t>(queue_.num_texts()) + count > options_.queue_texts) {
      return absl::ResourceExhaustedError(
          Cat(count, " texts are more than the encoder's queue has room for: ", queue_.num_texts(),
              " wait, the limit is ", options_.queue_texts, " (encoder.queue_texts)"));
    }
    if (num_bytes_ > options_.queue_bytes) {
      return absl::ResourceExhaustedError(Cat(
          "texts of ", waiting.num_bytes, " bytes are more than the encoder's queue has room for: ",
          num_bytes_ - waiting.num_bytes, " are there, the limit is ", options_.queue_bytes, " (encoder.queue_bytes)"));
    }
    return absl::OkStatus();
  }

  void End(const Request& waiting, Result result, bool queued = true) {
    if (waiting->is_over()) return;
    Done done = std::exchange(waiting->done, nullptr);
    if (queued) queue_.Forget(*waiting);
    num_bytes_ -= waiting->num_bytes;
    waiting->deadline.cancel();
    waiting_.erase(waiting);
    ReportState();
    done(std::move(result));
  }

  void EndAll(const absl::Status& status) {
    const std::vector<Request> all(waiting_.begin(), waiting_.end());
    for (const Request& request : all) End(request, status);
  }

  // Ends what no call has been made for.
  void EndQueued(const absl::Status& status) {
    const std::vector<Request> all(waiting_.begin(), waiting_.end());
    for (const Request& request : all) {
      if (request->num_sent < request->request.texts.size()) End(request, status);
    }
    for (const TextRange& range : queue_.TakeAlone()) End(range.request, status);
  }

  // ---- Calls.

  void Pump() {
    while (num_calls_ < options_.connections && breaker_.MayCall() && !is_asking_) {
      if (queue_.NextCall() == absl::InfiniteFuture()) break;
      if (!is_known_) {
        AskWho();
        break;
      }
      std::vector<TextRange> ranges = queue_.Take(MonotonicNow());
      if (ranges.empty()) {
        WakeAt(queue_.NextCall());
        break;
      }
      Begin(std::move(ranges));
    }
    ReportState();
  }

  void WakeAt(absl::Time time) {
    if (time == absl::InfiniteFuture() || time == absl::InfinitePast()) return;
    window_.expires_after(absl::ToChronoNanoseconds(std::max(time - MonotonicNow(), absl::ZeroDuration())));
    window_.async_wait([this](Error error) {
      if (!error) Pump();
    });
  }

  void Begin(std::vector<TextRange> ranges) {
    auto call = std::make_shared<Call>();
    call->ranges = std::move(ranges);
    std::vector<std::string_view> texts;
    for (const TextRange& range : call->ranges) {
      const std::vector<std::string>& of_request = range.request->request.texts;
      for (size_t idx = 0; idx < range.count; ++idx) texts.push_back(of_request[range.begin + idx]);
    }
    const EncodeRequest& first = call->ranges.front().request->request;
    const bool is_query = first.kind == TextKind::kQuery;
    const EncoderIdentity& known = options_.identity;
    const std::string_view prefix = options_.dialect == Dialect::kMaxsim ? std::string_view()
                                    : is_query                           ? std::string_view(known.query_prefix)
                                                                         : std::string_view(known.document_prefix);
    call->http.path = Cat(peer_.url.base, EncodePath(options_.dialect));
    call->http.body = FormatCall(options_.dialect, known.model, first.kind, prefix, texts, first.max_tokens);
    call->began = MonotonicNow();
    breaker_.OnCall();
    ++num_calls_;
    Send(call, options_.timeout);
  }

  std::shared_ptr<HttpConnection> NewConnection() {
    auto connection = std::make_shared<HttpConnection>(&loop_, &peer_);
    connections_.insert(connection);
    return connection;
  }

  // Returns the connection that was used last, which is the least likely one to be closed.
  std::shared_ptr<HttpConnection> KeptConnection() {
    while (!kept_.empty()) {
      std::shared_ptr<HttpConnection> connection = std::move(kept_.back());
      kept_.pop_back();
      if (connection->IsUsable()) return connection;
      Drop(connection);
    }
    return nullptr;
  }

  void Keep(const std::shared_ptr<HttpConnection>& connection) {
    connection->IsUsable() ? kept_.push_back(connection) : Drop(connection);
  }

  void Drop(const std::shared_ptr<HttpConnection>& connection) {
    connection->Close();
    connections_.erase(connection);
  }

  void Send(const CallPtr& call, absl::Duration timeout) {
    std::shared_ptr<HttpConnection> connection = call->is_second_try ? nullptr : KeptConnection();
    if (connection == nullptr) connection = NewConnection();
    connection->Send(call->http, timeout, options_.max_answer_bytes, [this, call, connection](HttpOutcome outcome) {
      Keep(connection);
      OnOutcome(call, std::move(outcome));
    });
  }

  void OnOutcome(const CallPtr& call, HttpOutcome outcome) {
    const absl::Duration left = options_.timeout - (MonotonicNow() - call->began);
    if (outcome.was_stale && !call->is_second_try && left > absl::ZeroDuration()) {
      call->is_second_try = true;
      return Send(call, left);
    }
    if (!outcome.error.ok()) {
      return Fail(call, outcome.timed_out ? "timeout" : "unreachable", outcome.error);
    }
    if (outcome.status != 200) return OnRefusal(call, outcome);
    if (outcome.body.size() <= kSmallAnswerBytes) return OnAnswer(call, Parse(*call, outcome.body));
    asio::post(readers_, [this, call, body = std::move(outcome.body)]() mutable {
      auto answer = std::make_shared<absl::StatusOr<Answer>>(absl::ResourceExhaustedError("no memory for its answer"));
      try {
        *answer = Parse(*call, body);
      } catch (const std::exception&) {
        // The call fails, as with any other answer that cannot be read.
      }
      body = {};
      asio::post(loop_, [this, call, answer] { OnAnswer(call, std::move(*answer)); });
    });
  }

  // Thread-safe.
  absl::StatusOr<Answer> Parse(const Call& call, const std::string& body) const {
    return ParseAnswer(options_.dialect, body, call.num_texts(), identity().dim);
  }

  void OnAnswer(const CallPtr& call, absl::StatusOr<Answer> answer) {
    if (!answer.ok()) {
      return Fail(call, "garbage",
                  absl::Status(answer.status().code() == absl::StatusCode::kInternal ? absl::StatusCode::kInternal
                                                                                     : absl::StatusCode::kUnavailable,
                               Cat("its answer: ", answer.status().message())));
    }
    if (absl::Status status = CheckWho(*answer); !status.ok()) return Fail(call, "changed", status);
    Succeed(call, "ok");
    size_t next = 0;
    for (const TextRange& range : call->ranges) {
      Deliver(range, &answer->texts[next]);
      next += range.count;
    }
    Pump();
  }

  void Deliver(const TextRange& range, EncodedText* texts) {
    WaitingRequest& waiting = *range.request;
    if (waiting.is_over()) return;
    const bool is_query = waiting.request.kind == TextKind::kQuery;
    const int32_t own = is_query ? options_.max_query_tokens : options_.max_document_tokens;
    const int32_t limit = waiting.request.max_tokens > 0 ? std::min(own, waiting.request.max_tokens) : own;
    for (size_t idx = 0; idx < range.count; ++idx) {
      if (texts[idx].num_tokens > limit) {
        return End(range.request, Invalid("text ", range.begin + idx, " has ", texts[idx].num_tokens,
                                          " tokens, the limit is ", limit));
      }
      waiting.results[range.begin + idx] = std::move(texts[idx]);
    }
    waiting.num_answered += range.count;
    if (waiting.num_answered == waiting.results.size()) End(range.request, std::move(waiting.results));
  }

  // The encoder has answered, and not with 200.
  void OnRefusal(const CallPtr& call, const HttpOutcome& outcome) {
    const std::string said = Cat("status ", outcome.status, ": ", SaidInError(outcome.body));
    switch (outcome.status) {
      case 400:
      case 413:
      case 422:
        Succeed(call, "refused_text");
        if (call->ranges.size() > 1) {
          for (TextRange& range : call->ranges) queue_.AddAlone(std::move(range));
        } else {
          End(call->ranges.front().request, absl::InvalidArgumentError(Cat("the encoder refuses the text: ", said)));
        }
        return Pump();
      case 401:
      case 403:
      case 404: {
        const std::string_view check =
            outcome.status == 404 ? "check encoder.url, encoder.dialect and encoder.model" : "check encoder.token_file";
        Succeed(call, "refused_call");
        return EndCall(call, absl::FailedPreconditionError(Cat(where_, ": ", said, "; ", check)));
      }
      case 429: {
        absl::Status status = absl::UnavailableError(Cat(where_, " is busy: ", said));
        client::SetRetryAfter(outcome.retry_after.value_or(absl::Seconds(1)), status);
        Succeed(call, "busy");
        return EndCall(call, status);
      }
      default: {
        absl::Status status = absl::UnavailableError(said);
        if (outcome.retry_after.has_value()) client::SetRetryAfter(*outcome.retry_after, status);
        return Fail(call, "error", status);
      }
    }
  }

  // Ends the requests of a call that has been counted.
  void EndCall(const CallPtr& call, const absl::Status& status) {
    for (const TextRange& range : call->ranges) End(range.request, status);
    Pump();
  }

  void Succeed(const CallPtr& call, std::string_view result) {
    Count(*call, result);
    if (breaker_.state() != CircuitBreaker::State::kClosed) {
      log::Write(spdlog::level::info, "encoder_breaker", {{"state", "closed"}, {"encoder", where_}});
    }
    breaker_.OnSuccess();
  }

  void Fail(const CallPtr& call, std::string_view result, absl::Status why) {
    Count(*call, result);
    OnFailure(why);
    absl::Status status = Prefix(where_ + ": ", why);
    why.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
    EndCall(call, status);
  }

  void OnFailure(const absl::Status& why) {
    const absl::Time now = MonotonicNow();
    if (!breaker_.OnFailure(now, std::string_view(why.message().data(), why.message().size()))) return;
    log::Write(spdlog::level::warn, "encoder_breaker",
               {{"state", "open"}, {"encoder", where_}, {"error", std::string(why.message())}});
    if (absl::Status refusal = breaker_.Admit(now); !refusal.ok()) {
      client::SetRetryAfter(options_.breaker_cooldown, refusal);
      EndQueued(refusal);
    }
  }

  void Count(const Call& call, std::string_view result) {
    --num_calls_;
    if (metrics_ != nullptr) metrics_->CountEncoderCall(result, call.num_texts(), MonotonicNow() - call.began);
  }

  void ReportState() {
    if (metrics_ == nullptr) return;
    metrics_->SetEncoderQueue(queue_.num_texts(), num_bytes_);
    metrics_->SetEncoderBreaker(static_cast<int>(breaker_.state()));
  }

  // ---- Who the encoder is.

  // Asks an encoder of the dialect `maxsim`. Texts wait for the answer.
  void AskWho() {
    if (is_asking_) return;
    is_asking_ = true;
    breaker_.OnCall();
    ++num_calls_;
    HttpCall call;
    call.is_post = false;
    call.path = peer_.url.base + "/info";
    const std::shared_ptr<HttpConnection> connection = NewConnection();
    connection->Send(call, options_.timeout, kSmallAnswerBytes, [this, connection](HttpOutcome outcome) {
      Keep(connection);
      is_asking_ = false;
      --num_calls_;
      const std::string where =
          Cat("encoder ", peer_.url.is_tls ? "https://" : "http://", peer_.url.HostHeader(), peer_.url.base, "/info");
      absl::Status status = outcome.error;
      if (status.ok() && outcome.status != 200) {
        const std::string said = Cat("status ", outcome.status, ": ", SaidInError(outcome.body));
        status = outcome.status < 500 && outcome.status != 429 ? absl::FailedPreconditionError(said)
                                                               : absl::UnavailableError(said);
      }
      if (status.ok()) status = LearnWho(outcome.body);
      status.code() == absl::StatusCode::kUnavailable ? OnFailure(status) : breaker_.OnSuccess();
      if (!status.ok()) EndQueued(Prefix(where + ": ", status));
      Pump();
    });
  }

  absl::Status LearnWho(const std::string& body) {
    EncoderIdentity said;
    if (absl::Status status = collection::ParseEncoderIdentity(body, "its identity", &said); !status.ok()) {
      return absl::UnavailableError(status.message());
    }
    const EncoderIdentity& configured = options_.identity;
    if (!configured.fingerprint.empty() || !configured.model.empty() || configured.dim != 0) {
      if ((!configured.model.empty() && configured.model != said.model) ||
          !collection::CheckSameEncoder(configured, said).ok()) {
        return absl::FailedPreconditionError(Cat("it is ", collection::DescribeEncoder(said), " of dim ", said.dim,
                                                 ", and the configuration says ",
                                                 collection::DescribeEncoder(configured), " of dim ", configured.dim));
      }
    }
    const MutexLock lock(&identity_mutex_);
    identity_ = std::move(said);
    is_known_ = true;
    return absl::OkStatus();
  }

  // Refuses an answer of another encoder than the one that answered before, and remembers what was not known.
  absl::Status CheckWho(const Answer& answer) {
    const MutexLock lock(&identity_mutex_);
    EncoderIdentity said;
    said.model = answer.model;
    said.fingerprint = answer.fingerprint;
    if (!collection::CheckSameEncoder(identity_, said).ok()) {
      is_known_ = false;
      return absl::UnavailableError(Cat("its answer is of ", collection::DescribeEncoder(said), ", and it said to be ",
                                        collection::DescribeEncoder(identity_)));
    }
    if (identity_.dim == 0 && !answer.texts.empty()) identity_.dim = answer.texts.front().dim;
    if (!answer.texts.empty() && answer.texts.front().dim != identity_.dim) {
      return absl::InternalError(
          Cat("its answer: vectors of ", answer.texts.front().dim, " values, and ", identity_.dim, " are expected"));
    }
    return absl::OkStatus();
  }

  const HttpEncoderOptions options_;
  const HttpPeer peer_;
  Metrics* const metrics_;
  const std::string where_;  // for messages

  mutable Mutex identity_mutex_;
  EncoderIdentity identity_ ABSL_GUARDED_BY(identity_mutex_);

  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  asio::thread_pool readers_{kReadingThreads};
  asio::steady_timer window_{loop_};
  TextQueue queue_;
  CircuitBreaker breaker_;
  std::unordered_set<Request> waiting_;
  uint64_t num_bytes_ = 0;  // of the texts in waiting_
  std::unordered_set<std::shared_ptr<HttpConnection>> connections_;
  std::vector<std::shared_ptr<HttpConnection>> kept_;  // those without a call
  int num_calls_ = 0;                                  // in progress: one has its connection until its answer is read
  bool is_known_;                                      // whether the encoder has said who it is, or need not
  bool is_asking_ = false;
  std::thread thread_;
};

HttpEncoder::HttpEncoder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpEncoder::~HttpEncoder() { impl_->Stop(); }
EncoderIdentity HttpEncoder::identity() const { return impl_->identity(); }

std::shared_ptr<Cancellation> HttpEncoder::Encode(EncodeRequest request, Done done) {
  return impl_->Encode(std::move(request), std::move(done));
}

absl::StatusOr<std::unique_ptr<HttpEncoder>> HttpEncoder::Create(HttpEncoderOptions options, Metrics* metrics) {
  absl::StatusOr<HttpPeer> peer = MakePeer(options);
  if (!peer.ok()) return peer.status();
  if (absl::Status status = collection::CheckEncoderIdentity(options.identity); !status.ok()) {
    return Prefix("encoder.", status);
  }
  return std::unique_ptr<HttpEncoder>(
      new HttpEncoder(std::make_shared<Impl>(std::move(options), *std::move(peer), metrics)));
}

}  // namespace maxsim::encoder
