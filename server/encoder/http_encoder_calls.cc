// The calls of HttpEncoder: sends calls, handles their outcomes, and asks for the encoder's identity.
#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "server/encoder/http_encoder_impl.h"
#include "server/observability/log_event.h"

namespace maxsim::encoder {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

// An answer up to this size is parsed on the loop's thread. If it is JSON, this takes about a millisecond.
constexpr size_t kSmallAnswerBytes = size_t{64} << 10;

// Returns the trace headers for a call, which may have texts of several requests: those of the first request whose
// trace is sampled; if none is, those of the first request.
const TraceHeaders& TraceOf(const std::vector<TextRange>& ranges) {
  constexpr std::string_view kSampled = "-01";
  for (const TextRange& range : ranges) {
    const TraceHeaders& trace = range.request->request.trace;
    if (std::string_view(trace.traceparent).ends_with(kSampled)) return trace;
  }
  return ranges.front().request->request.trace;
}

}  // namespace

void HttpEncoder::Impl::Pump() {
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

void HttpEncoder::Impl::WakeAt(absl::Time time) {
  if (time == absl::InfiniteFuture() || time == absl::InfinitePast()) return;
  window_.expires_after(absl::ToChronoNanoseconds(std::max(time - MonotonicNow(), absl::ZeroDuration())));
  window_.async_wait([this](Error error) {
    if (!error) Pump();
  });
}

void HttpEncoder::Impl::Begin(std::vector<TextRange> ranges) {
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
  call->http.body =
      FormatCall(options_.dialect, known.model, first.kind, prefix,
                 is_query ? options_.query_prompt_name : options_.document_prompt_name, texts, first.max_tokens);
  call->http.trace = TraceOf(call->ranges);
  call->began = MonotonicNow();
  breaker_.OnCall();
  ++num_calls_;
  Send(call, options_.timeout);
}

std::shared_ptr<HttpConnection> HttpEncoder::Impl::NewConnection() {
  auto connection = std::make_shared<HttpConnection>(&loop_, &peer_);
  connections_.insert(connection);
  return connection;
}

std::shared_ptr<HttpConnection> HttpEncoder::Impl::KeptConnection() {
  while (!kept_.empty()) {
    std::shared_ptr<HttpConnection> connection = std::move(kept_.back());
    kept_.pop_back();
    if (connection->IsUsable()) return connection;
    Drop(connection);
  }
  return nullptr;
}

void HttpEncoder::Impl::Keep(const std::shared_ptr<HttpConnection>& connection) {
  connection->IsUsable() ? kept_.push_back(connection) : Drop(connection);
}

void HttpEncoder::Impl::Drop(const std::shared_ptr<HttpConnection>& connection) {
  connection->Close();
  connections_.erase(connection);
}

void HttpEncoder::Impl::Send(const CallPtr& call, absl::Duration timeout) {
  std::shared_ptr<HttpConnection> connection = call->is_second_try ? nullptr : KeptConnection();
  if (connection == nullptr) connection = NewConnection();
  connection->Send(call->http, timeout, options_.max_answer_bytes, [this, call, connection](HttpOutcome outcome) {
    Keep(connection);
    OnOutcome(call, std::move(outcome));
  });
}

void HttpEncoder::Impl::OnOutcome(const CallPtr& call, HttpOutcome outcome) {
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
      // Parse ran out of memory. The call fails with the error that `answer` was initialized with.
    }
    body = {};
    asio::post(loop_, [this, call, answer] { OnAnswer(call, std::move(*answer)); });
  });
}

absl::StatusOr<Answer> HttpEncoder::Impl::Parse(const Call& call, const std::string& body) const {
  return ParseAnswer(options_.dialect, body, call.num_texts(), identity().dim);
}

void HttpEncoder::Impl::OnAnswer(const CallPtr& call, absl::StatusOr<Answer> answer) {
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

void HttpEncoder::Impl::Deliver(const TextRange& range, EncodedText* texts) {
  WaitingRequest& waiting = *range.request;
  if (waiting.is_over()) return;
  const bool is_query = waiting.request.kind == TextKind::kQuery;
  const int32_t own = is_query ? options_.max_query_tokens : options_.max_document_tokens;
  const int32_t limit = waiting.request.max_tokens > 0 ? std::min(own, waiting.request.max_tokens) : own;
  for (size_t idx = 0; idx < range.count; ++idx) {
    if (texts[idx].num_tokens > limit) {
      return End(range.request,
                 Invalid("text ", range.begin + idx, " has ", texts[idx].num_tokens, " tokens, the limit is ", limit));
    }
    waiting.results[range.begin + idx] = std::move(texts[idx]);
  }
  waiting.num_answered += range.count;
  if (waiting.num_answered == waiting.results.size()) End(range.request, std::move(waiting.results));
}

void HttpEncoder::Impl::OnRefusal(const CallPtr& call, const HttpOutcome& outcome) {
  const std::string status_text = LogRefusal(where_, outcome);
  switch (outcome.status) {
    case 400:
    case 413:
    case 422:
      Succeed(call, "refused_text");
      if (call->ranges.size() > 1) {
        for (TextRange& range : call->ranges) queue_.AddAlone(std::move(range));
      } else {
        End(call->ranges.front().request,
            absl::InvalidArgumentError(Cat("the encoder refuses the text: ", status_text)));
      }
      return Pump();
    case 401:
    case 403:
    case 404: {
      const std::string_view check =
          outcome.status == 404 ? "check encoder.url, encoder.dialect and encoder.model" : "check encoder.token_file";
      Succeed(call, "refused_call");
      return EndCall(call, absl::FailedPreconditionError(Cat(where_, ": ", status_text, "; ", check)));
    }
    case 429: {
      absl::Status status = absl::UnavailableError(Cat(where_, " is busy: ", status_text));
      client::SetRetryAfter(outcome.retry_after.value_or(absl::Seconds(1)), status);
      Succeed(call, "busy");
      return EndCall(call, status);
    }
    default: {
      absl::Status status = absl::UnavailableError(status_text);
      if (outcome.retry_after.has_value()) client::SetRetryAfter(*outcome.retry_after, status);
      return Fail(call, "error", status);
    }
  }
}

std::string HttpEncoder::Impl::LogRefusal(const std::string& where, const HttpOutcome& outcome) {
  if (const std::optional<uint64_t> left_out = refusal_lines_.Admit(log::LogRateLimiter::Clock::now())) {
    log::Write(spdlog::level::warn, "encoder_refusal",
               {{"encoder", where},
                {"status", outcome.status},
                {"said", SaidInError(outcome.body, peer_.token)},
                {"left_out", *left_out}});
  }
  return Cat("status ", outcome.status, " (its answer is in the server's log)");
}

void HttpEncoder::Impl::EndCall(const CallPtr& call, const absl::Status& status) {
  for (const TextRange& range : call->ranges) End(range.request, status);
  Pump();
}

void HttpEncoder::Impl::Succeed(const CallPtr& call, std::string_view result) {
  Count(*call, result);
  if (breaker_.state() != CircuitBreaker::State::kClosed) {
    log::Write(spdlog::level::info, "encoder_breaker", {{"state", "closed"}, {"encoder", where_}});
  }
  breaker_.OnSuccess();
}

void HttpEncoder::Impl::Fail(const CallPtr& call, std::string_view result, absl::Status why) {
  Count(*call, result);
  // The error may quote the part of the answer that could not be read, so secrets are removed from it.
  why = WithMessage(why, WithoutSecrets(std::string(why.message()), peer_.token));
  OnFailure(why);
  EndCall(call, WithMessage(why, Cat(where_, ": ", std::string(why.message()))));
}

void HttpEncoder::Impl::OnFailure(const absl::Status& why) {
  const absl::Time now = MonotonicNow();
  if (!breaker_.OnFailure(now, std::string_view(why.message().data(), why.message().size()))) return;
  log::Write(spdlog::level::warn, "encoder_breaker",
             {{"state", "open"}, {"encoder", where_}, {"error", std::string(why.message())}});
  if (absl::Status refusal = breaker_.Admit(now); !refusal.ok()) {
    client::SetRetryAfter(options_.breaker_cooldown, refusal);
    EndQueued(refusal);
  }
}

void HttpEncoder::Impl::Count(const Call& call, std::string_view result) {
  --num_calls_;
  if (metrics_ != nullptr) metrics_->CountEncoderCall(result, call.num_texts(), MonotonicNow() - call.began);
}

void HttpEncoder::Impl::ReportState() {
  if (metrics_ == nullptr) return;
  metrics_->SetEncoderQueue(queue_.num_texts(), num_bytes_);
  metrics_->SetEncoderBreaker(static_cast<int>(breaker_.state()));
}

void HttpEncoder::Impl::AskWho() {
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
      const std::string status_text = LogRefusal(where, outcome);
      status = outcome.status < 500 && outcome.status != 429 ? absl::FailedPreconditionError(status_text)
                                                             : absl::UnavailableError(status_text);
    }
    if (status.ok()) status = LearnWho(outcome.body);
    status.code() == absl::StatusCode::kUnavailable ? OnFailure(status) : breaker_.OnSuccess();
    if (!status.ok())
      EndQueued(Prefix(where + ": ", WithMessage(status, WithoutSecrets(std::string(status.message()), peer_.token))));
    Pump();
  });
}

absl::Status HttpEncoder::Impl::LearnWho(const std::string& body) {
  EncoderIdentity said;
  if (absl::Status status = collection::ParseEncoderIdentity(body, "its identity", &said); !status.ok()) {
    log::Write(spdlog::level::warn, "encoder_identity",
               {{"encoder", where_}, {"error", WithoutSecrets(std::string(status.message()), peer_.token)}});
    return absl::UnavailableError("its identity cannot be read (the server's log says why)");
  }
  const EncoderIdentity& configured = options_.identity;
  if (!configured.fingerprint.empty() || !configured.model.empty() || configured.dim != 0) {
    if ((!configured.model.empty() && configured.model != said.model) ||
        !collection::CheckSameEncoder(configured, said).ok()) {
      return absl::FailedPreconditionError(Cat("it is ", collection::DescribeEncoder(said), " of dim ", said.dim,
                                               ", but the configuration says ", collection::DescribeEncoder(configured),
                                               " of dim ", configured.dim));
    }
  }
  const MutexLock lock(&identity_mutex_);
  identity_ = std::move(said);
  is_known_ = true;
  return absl::OkStatus();
}

absl::Status HttpEncoder::Impl::CheckWho(const Answer& answer) {
  const MutexLock lock(&identity_mutex_);
  EncoderIdentity said;
  said.model = answer.model;
  said.fingerprint = answer.fingerprint;
  if (!collection::CheckSameEncoder(identity_, said).ok()) {
    is_known_ = false;
    return absl::UnavailableError(Cat("its answer is of ", collection::DescribeEncoder(said),
                                      ", but it said that it was ", collection::DescribeEncoder(identity_)));
  }
  if (identity_.dim == 0 && !answer.texts.empty()) identity_.dim = answer.texts.front().dim;
  if (!answer.texts.empty() && answer.texts.front().dim != identity_.dim) {
    return absl::InternalError(
        Cat("its answer: vectors of ", answer.texts.front().dim, " values, but ", identity_.dim, " are expected"));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::encoder
