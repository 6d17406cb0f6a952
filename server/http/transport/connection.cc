#include "server/http/transport/connection.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/write.hpp>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "server/observability/log_event.h"

namespace maxsim::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::http::field;

// The time in which a client must read an answer when the server is about to end.
constexpr absl::Duration kHurriedWrite = absl::Seconds(1);

constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

void LogException(const std::exception& exception) noexcept {
  try {
    log::Write(spdlog::level::err, "http_exception", {{"error", exception.what()}});
  } catch (const std::exception&) {
    // If there is no memory for the log line, the line is lost.
  }
}

// An answer that is passed from the application to the loop. It is stored in the connection's own memory, which has
// room for one answer. That suffices, because a connection has one answer at a time.
struct Connection::Delivery {
  using allocator_type = SlotMemory::Allocator<std::byte>;

  allocator_type get_allocator() const { return allocator_type(&connection->delivery_memory_); }

  void operator()() {
    Connection& self = *connection;
    if (self.phase_ != Phase::kHandling) return;
    self.Guarded([&] {
      Error ignored;
      self.stream_.socket().cancel(ignored);  // the watch
      self.Answer(std::move(response), /*more_to_come=*/false);
    });
  }

  std::shared_ptr<Connection> connection;
  Response response;
};

Connection::Connection(asio::io_context* loop, asio::ip::tcp::socket socket, Connections* connections)
    : loop_(*loop),
      stream_(std::move(socket)),
      deadline_(*loop),
      connections_(*connections),
      reader_(connections->options().client_header, connections->options().reads_trace_headers) {}

void Connection::Start() {
  Error unknown;
  const auto remote = stream_.socket().remote_endpoint(unknown);
  if (!unknown) {
    address_ = remote.address();
    peer_ = PeerKeyOf(*address_);
  }
  position_ = connections_.Add(peer_, shared_from_this());
  Guarded([this] {
    if (connections_.handshakes == nullptr) return AwaitRequest();
    Enter(Phase::kIdle, connections_.options().idle_timeout);
    AwaitFirstByte();
  });
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  // Keep the connection until this function returns: what it does below may release all other references.
  const std::shared_ptr<Connection> self = shared_from_this();
  if (cancelled_ != nullptr) *cancelled_ = true;
  Error ignored;
  deadline_.cancel(ignored);
  CloseStream();
  ReturnSlot();
  if (position_.has_value()) connections_.Remove(peer_, *position_);
  position_.reset();
}

void Connection::OnNoMemory() {
  if (phase_ == Phase::kWriting || phase_ == Phase::kLingering || phase_ == Phase::kHandshake) return Close();
  try {
    reader_.End();
    if (phase_ != Phase::kIdle) return Refuse(503, absl::ResourceExhaustedError("no memory for the request"));
  } catch (const std::exception&) {
  }
  Close();
}

void Connection::Drain() {
  if (phase_ != Phase::kHandling && phase_ != Phase::kWriting) Close();
}

absl::Duration Connection::ReceivingFor() const {
  return phase_ == Phase::kBody ? absl::FromChrono(std::chrono::steady_clock::now() - body_began_)
                                : absl::ZeroDuration();
}

void Connection::GiveWay() {
  log::Write(spdlog::level::debug, "http_slow_body",
             {{"peer", reader_.request().peer},
              {"path", reader_.request().path},
              {"received_bytes", reader_.body_bytes()},
              {"duration_us", absl::ToInt64Microseconds(ReceivingFor())}});
  Close();
}

void Connection::EndGrace() {
  if (phase_ != Phase::kHandling) Close();
}

bool Connection::HoldBody() {
  const uint64_t size = reader_.body_bytes() - held_body_bytes_;
  if (!connections_.HoldBodyBytes(size, this)) return false;
  held_body_bytes_ += size;
  return true;
}

void Connection::ReturnSlot() {
  connections_.ReleaseBodyBytes(std::exchange(held_body_bytes_, 0));
  if (std::exchange(has_slot_, false)) connections_.ReturnSlot(peer_, *position_);
}

void Connection::Enter(Phase phase, absl::Duration limit) {
  phase_ = phase;
  if (limit == absl::InfiniteDuration()) {
    deadline_.expires_at(std::chrono::steady_clock::time_point::max());
    return;
  }
  deadline_.expires_after(absl::ToChronoNanoseconds(limit));
  deadline_.async_wait([self = shared_from_this()](Error error) {
    // The timer may have been set again after this handler was queued, so check that it has expired.
    if (!error && self->deadline_.expiry() <= std::chrono::steady_clock::now()) self->Close();
  });
}

void Connection::AwaitRequest() {
  if (connections_.draining) return Close();
  reader_.End();
  if (reader_.has_bytes()) return BeginRequest();
  Enter(Phase::kIdle, connections_.options().idle_timeout);
  stream_.AsyncWaitRead([self = shared_from_this()](Error error) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->Close();
    self->Guarded([&] { self->BeginRequest(); });
  });
}

void Connection::BeginRequest() {
  Enter(Phase::kHeader, connections_.options().header_timeout);
  reader_.Begin();
  Take(reader_.Advance());
}

void Connection::ReceiveMore() {
  stream_.AsyncReadSome(reader_.Prepare(), [self = shared_from_this()](Error error, size_t size) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->Close();
    self->Guarded([&] {
      self->reader_.Commit(size);
      self->Take(self->reader_.Advance());
    });
  });
}

void Connection::Take(RequestReader::Progress progress) {
  if (phase_ == Phase::kBody && progress != RequestReader::Progress::kRefused && !HoldBody()) {
    return Refuse(429, absl::UnavailableError(absl::StrCat("the limit of ", connections_.options().max_body_memory,
                                                           " bytes for all bodies together is reached")));
  }
  switch (progress) {
    case RequestReader::Progress::kMore:
      return ReceiveMore();
    case RequestReader::Progress::kHeader:
      return OnHeader();
    case RequestReader::Progress::kComplete:
      return OnRequest();
    case RequestReader::Progress::kRefused:
      return Refuse(reader_.refusal().status, reader_.refusal().why);
  }
}

void Connection::OnHeader() {
  keep_alive_ = reader_.keep_alive();
  Request& request = reader_.request();
  request.peer = PeerAddress();
  request.encrypted = stream_.session() != nullptr;
  request.has_client_certificate = request.encrypted && stream_.session()->has_client_certificate();
  if (std::optional<Response> response = connections_.application().Begin(request)) {
    return Answer(*std::move(response), /*more_to_come=*/reader_.has_body());
  }
  AcceptBody();
}

void Connection::AcceptBody() {
  const TransportOptions& options = connections_.options();
  // Checks the length that the header announces before taking a slot.
  const RequestReader::Progress progress = reader_.AcceptBody(options.max_body_bytes);
  if (progress == RequestReader::Progress::kRefused) return Take(progress);
  has_slot_ = connections_.TakeSlot(peer_, *position_);
  if (!has_slot_) {
    return Refuse(429, absl::ResourceExhaustedError(
                           absl::StrCat("the limit of ", options.max_requests, " requests at a time is reached")));
  }
  Enter(Phase::kBody, options.body_timeout);
  body_began_ = std::chrono::steady_clock::now();
  if (progress == RequestReader::Progress::kComplete || !reader_.wants_continue()) return Take(progress);
  asio::async_write(stream_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                    [self = shared_from_this()](Error error, size_t) {
                      if (self->phase_ == Phase::kClosed) return;
                      if (error) return self->Close();
                      self->Guarded([&] { self->ReceiveMore(); });
                    });
}

void Connection::OnRequest() {
  Request request = std::move(reader_.request());
  request.body = reader_.TakeBody();
  request.arrival = MonotonicNow();
  request.cancelled = cancelled_ = std::make_shared<std::atomic<bool>>(false);
  // The application has no time limit here, since its calls have their own deadlines.
  Enter(Phase::kHandling, absl::InfiniteDuration());
  WatchForHangup();
  connections_.application().Handle(std::move(request), [self = shared_from_this()](Response response) mutable {
    // Posts the answer to the loop, because the last reference to the connection may have to be released on the
    // loop's thread.
    asio::io_context& loop = self->loop_;
    asio::post(loop, Delivery{std::move(self), std::move(response)});
  });
}

void Connection::WatchForHangup() {
  stream_.AsyncWaitRead([self = shared_from_this()](Error error) {
    if (error || self->phase_ != Phase::kHandling) return;
    const Stream::Ahead ahead = self->stream_.Peek();
    if (ahead == Stream::Ahead::kNothing) return self->Guarded([&] { self->WatchForHangup(); });
    // If the next request has already arrived, Peek sees only that request's bytes, and not whether the client hangs
    // up after them.
    if (ahead == Stream::Ahead::kEnd && self->cancelled_ != nullptr) *self->cancelled_ = true;
  });
}

void Connection::Refuse(int status, const absl::Status& why) {
  Answer(connections_.application().Refuse(reader_.request(), status, why), /*more_to_come=*/true);
}

void Connection::Answer(Response response, bool more_to_come) {
  cancelled_ = nullptr;
  const bool is_head = reader_.is_head();
  reader_.End();
  const absl::Duration limit = connections_.options().write_timeout;
  Enter(Phase::kWriting, connections_.grace_is_over ? std::min(limit, kHurriedWrite) : limit);
  message_ = {};
  message_.version(reader_.version());
  message_.result(static_cast<unsigned>(response.status));
  if (response.status == 499) message_.reason("Client Closed Request");
  if (response.status != 304) message_.set(field::content_type, response.content_type);
  if (response.retry_after_s > 0) message_.set(field::retry_after, std::to_string(response.retry_after_s));
  if (!response.allow.empty()) message_.set(field::allow, response.allow);
  if (!response.etag.empty()) message_.set(field::etag, response.etag);
  for (const ResponseHeader& header : response.headers) {
    message_.set(beast::string_view(header.name.data(), header.name.size()),
                 beast::string_view(header.value.data(), header.value.size()));
  }
  // An answer whose status allows no body has no length of its own (RFC 9110, 8.6).
  if (response.status != 304) message_.content_length(response.body.size());
  if (!is_head) message_.body() = std::move(response.body);
  keep_alive_ = keep_alive_ && !more_to_come && !connections_.draining;
  message_.keep_alive(keep_alive_);
  beast::http::async_write(stream_, message_, [self = shared_from_this(), more_to_come](Error error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->Close();
    self->Guarded([&] { self->OnWritten(more_to_come); });
  });
}

void Connection::OnWritten(bool more_to_come) {
  message_ = {};
  ReturnSlot();
  if (more_to_come) return Linger();
  keep_alive_ ? AwaitRequest() : Close();
}

void Connection::Linger() {
  // Closing the socket with unread bytes would reset the connection, and the client might not see the answer. So
  // discard the bytes first, unless the server is draining.
  if (connections_.draining) return Close();
  Enter(Phase::kLingering, connections_.options().linger_timeout);
  stream_.FinishSending();
  Discard();
}

void Connection::Discard() {
  // The bytes are discarded, so they need not be decrypted.
  stream_.socket().async_read_some(asio::buffer(scratch_), [self = shared_from_this()](Error error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->Close() : self->Discard();
  });
}

}  // namespace maxsim::http
