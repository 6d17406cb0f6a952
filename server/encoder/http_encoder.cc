#include "server/encoder/http_encoder.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "client/status.h"
#include "server/encoder/http_encoder_impl.h"
#include "server/observability/log_event.h"

namespace maxsim::encoder {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);  // so that no time overflows the clock

absl::Status CheckTexts(const EncodeRequest& request) {
  if (request.texts.empty()) return absl::InvalidArgumentError("no text to encode");
  for (size_t idx = 0; idx < request.texts.size(); ++idx) {
    if (!IsUtf8(request.texts[idx])) return Invalid("text ", idx, " is not UTF-8");
  }
  return absl::OkStatus();
}

}  // namespace

class HttpEncoder::Impl::Handle final : public Cancellation {
 public:
  Handle(std::weak_ptr<Impl> impl, std::weak_ptr<WaitingRequest> request)
      : impl_(std::move(impl)), request_(std::move(request)) {}
  Handle(std::nullptr_t, std::nullptr_t) {}

  void Cancel() override {
    const std::shared_ptr<Impl> impl = impl_.lock();
    Request request = request_.lock();
    if (impl == nullptr || request == nullptr) return;
    boost::asio::post(impl->loop_, [self = impl.get(), request = std::move(request)] {
      self->End(request, absl::CancelledError("the client cancelled the call"));
    });
  }

 private:
  const std::weak_ptr<Impl> impl_;
  const std::weak_ptr<WaitingRequest> request_;
};

HttpEncoder::Impl::Impl(HttpEncoderOptions options, HttpPeer peer, Metrics* metrics)
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

void HttpEncoder::Impl::Stop() {
  asio::post(loop_, [this] {
    EndAll(absl::UnavailableError("the server is shutting down"));
    for (const std::shared_ptr<HttpConnection>& connection : connections_) connection->Close();
    loop_.stop();
  });
  thread_.join();
  readers_.join();
}

EncoderIdentity HttpEncoder::Impl::identity() const {
  const MutexLock lock(&identity_mutex_);
  return identity_;
}

std::shared_ptr<Cancellation> HttpEncoder::Impl::Encode(EncodeRequest request, Done done) {
  if (absl::Status status = CheckTexts(request); !status.ok()) {
    done(status);
    return std::make_shared<Handle>(nullptr, nullptr);
  }
  auto waiting = std::make_shared<WaitingRequest>(&loop_, std::move(request), std::move(done));
  asio::post(loop_, [this, waiting] { Admit(waiting); });
  return std::make_shared<Handle>(shared_from_this(), waiting);
}

void HttpEncoder::Impl::Run() {
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

void HttpEncoder::Impl::Admit(const Request& waiting) {
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

absl::Status HttpEncoder::Impl::CheckRoom(const WaitingRequest& waiting) const {
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

void HttpEncoder::Impl::End(const Request& waiting, Result result, bool queued) {
  if (waiting->is_over()) return;
  Done done = std::exchange(waiting->done, nullptr);
  if (queued) queue_.Forget(*waiting);
  num_bytes_ -= waiting->num_bytes;
  waiting->deadline.cancel();
  waiting_.erase(waiting);
  ReportState();
  done(std::move(result));
}

void HttpEncoder::Impl::EndAll(const absl::Status& status) {
  const std::vector<Request> all(waiting_.begin(), waiting_.end());
  for (const Request& request : all) End(request, status);
}

void HttpEncoder::Impl::EndQueued(const absl::Status& status) {
  const std::vector<Request> all(waiting_.begin(), waiting_.end());
  for (const Request& request : all) {
    if (request->num_sent < request->request.texts.size()) End(request, status);
  }
  for (const TextRange& range : queue_.TakeAlone()) End(range.request, status);
}

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
  if (!TellsKindsApart(options)) {
    log::Write(
        spdlog::level::warn, "encoder_kinds_alike",
        {{"dialect", Name(options.dialect)},
         {"effect", "queries and documents are sent alike, which is wrong for a model that encodes them differently"},
         {"keys", options.dialect == Dialect::kTei ? "encoder.query_prompt_name, encoder.query_prefix"
                                                   : "encoder.query_prefix, encoder.document_prefix"}});
  }
  return std::unique_ptr<HttpEncoder>(
      new HttpEncoder(std::make_shared<Impl>(std::move(options), *std::move(peer), metrics)));
}

}  // namespace maxsim::encoder
