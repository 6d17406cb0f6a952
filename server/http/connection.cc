#include "server/http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "absl/strings/str_cat.h"
#include "kernels/monotonic_clock.h"
#include "server/log_event.h"

namespace maxsim::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::http::field;

// Bytes read ahead of the parser; a whole header must fit.
constexpr size_t kBufferBytes = 64 * 1024;

// That an answer has to be read when the server is about to end.
constexpr absl::Duration kHurriedWrite = absl::Seconds(1);

constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

template <typename View>
std::string Text(View view) {
  return std::string(view.data(), view.size());
}

// The parser's error, not the socket's, and not the peer's going away.
bool IsMalformed(const boost::system::error_code& error) {
  namespace bhttp = beast::http;
  return error.category() == bhttp::make_error_code(bhttp::error::bad_method).category() &&
         error != bhttp::error::end_of_stream && error != bhttp::error::partial_message;
}

}  // namespace

bool Connections::TakeSlot(List::iterator place) {
  if (busy.size() >= static_cast<size_t>(options.max_requests)) {
    const auto slow = std::find_if(busy.begin(), busy.end(), [this](const std::shared_ptr<Connection>& connection) {
      return connection->ReceivingFor() > options.slow_body;
    });
    if (slow == busy.end()) return false;
    (*slow)->GiveWay();
  }
  busy.splice(busy.end(), idle, place);
  return true;
}

void Connections::ReturnSlot(List::iterator place) { idle.splice(idle.end(), busy, place); }

Connection::Connection(asio::io_context* loop, asio::ip::tcp::socket socket, Connections* connections)
    : loop_(*loop), socket_(std::move(socket)), deadline_(*loop), connections_(*connections), buffer_(kBufferBytes) {}

void Connection::Start() {
  place_ = connections_.idle.insert(connections_.idle.end(), shared_from_this());
  AwaitRequest();
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (request_.cancelled != nullptr) *request_.cancelled = true;
  deadline_.cancel();
  Error ignored;
  socket_.close(ignored);
  ReturnSlot();
  // The list may hold the last reference.
  const std::shared_ptr<Connection> self = std::move(*place_);
  connections_.idle.erase(place_);
  connections_.on_removed();
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
             {{"peer", request_.peer},
              {"path", request_.path},
              {"received_bytes", absl::StrCat(parser_->get().body().size())},
              {"duration_us", absl::StrCat(absl::ToInt64Microseconds(ReceivingFor()))}});
  Close();
}

void Connection::EndGrace() {
  if (phase_ != Phase::kHandling) Close();
}

void Connection::ReturnSlot() {
  if (std::exchange(has_slot_, false)) connections_.ReturnSlot(place_);
}

void Connection::Enter(Phase phase, absl::Duration limit) {
  phase_ = phase;
  if (limit == absl::InfiniteDuration()) {
    deadline_.expires_at(std::chrono::steady_clock::time_point::max());
    return;
  }
  deadline_.expires_after(absl::ToChronoNanoseconds(limit));
  deadline_.async_wait([self = shared_from_this()](Error error) {
    // The timer may have been set anew after this was on its way.
    if (!error && self->deadline_.expiry() <= std::chrono::steady_clock::now()) self->Close();
  });
}

void Connection::AwaitRequest() {
  if (connections_.draining) return Close();
  if (buffer_.size() > 0) return ReadHeader();
  Enter(Phase::kIdle, connections_.options.idle_timeout);
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Error error) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->Close() : self->ReadHeader();
  });
}

void Connection::ReadHeader() {
  Enter(Phase::kHeader, connections_.options.header_timeout);
  request_ = Request();
  version_ = 11;
  is_head_ = false;
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  // The limit comes once it is known who asks.
  parser_->body_limit(std::numeric_limits<uint64_t>::max());
  beast::http::async_read_header(socket_, buffer_, *parser_,
                                 [self = shared_from_this()](Error error, size_t) { self->OnHeader(error); });
}

absl::Status Connection::CheckFraming() const {
  const auto& header = parser_->get();
  // The parser refuses lengths that contradict one another, reads the first of a list, and knows codings by their last.
  if (header.count(field::content_length) > 1) return absl::InvalidArgumentError("Content-Length: appears twice");
  if (Text(header[field::content_length]).find_first_not_of("0123456789") != std::string::npos) {
    return absl::InvalidArgumentError("Content-Length: is not a number");
  }
  if (header.count(field::transfer_encoding) == 0) return absl::OkStatus();
  if (header.count(field::transfer_encoding) > 1 || header.count(field::content_length) > 0 || header.version() < 11 ||
      !beast::iequals(header[field::transfer_encoding], "chunked")) {
    return absl::InvalidArgumentError("Transfer-Encoding: only chunked is accepted, once and without Content-Length");
  }
  return absl::OkStatus();
}

void Connection::OnHeader(Error error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return OnReadError(error);
  const auto& header = parser_->get();
  version_ = header.version();
  keep_alive_ = header.keep_alive();
  is_head_ = header.method() == beast::http::verb::head;
  const std::string target = Text(header.target());
  request_.method = Text(header.method_string());
  request_.path = target.substr(0, target.find('?'));
  request_.authorization = Text(header[field::authorization]);
  request_.content_encoding = Text(header[field::content_encoding]);
  const std::string& client_header = connections_.options.client_header;
  if (!client_header.empty()) request_.client_id = Text(header[client_header]);
  Error unknown;
  const auto peer = socket_.remote_endpoint(unknown);
  if (!unknown) request_.peer = peer.address().to_string();
  if (absl::Status framing = CheckFraming(); !framing.ok()) return Refuse(400, framing);
  if (std::optional<Response> response = connections_.application->Begin(request_)) {
    return Answer(*std::move(response), /*more_to_come=*/!parser_->is_done());
  }
  AcceptBody();
}

void Connection::AcceptBody() {
  const uint64_t max_bytes = connections_.options.max_body_bytes;
  if (const auto length = parser_->content_length(); length && *length > max_bytes) {
    return Refuse(413, absl::InvalidArgumentError(
                           absl::StrCat("the body has ", *length, " bytes, more than the limit ", max_bytes)));
  }
  has_slot_ = connections_.TakeSlot(place_);
  if (!has_slot_) {
    return Refuse(429, absl::ResourceExhaustedError(absl::StrCat("the limit of ", connections_.options.max_requests,
                                                                 " requests at a time is reached")));
  }
  Enter(Phase::kBody, connections_.options.body_timeout);
  body_began_ = std::chrono::steady_clock::now();
  parser_->body_limit(max_bytes);
  if (parser_->is_done() || !beast::iequals(parser_->get()[field::expect], "100-continue")) return ReadBody();
  asio::async_write(socket_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                    [self = shared_from_this()](Error error, size_t) {
                      if (self->phase_ == Phase::kClosed) return;
                      error ? self->Close() : self->ReadBody();
                    });
}

void Connection::ReadBody() {
  beast::http::async_read(socket_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(Error error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return OnReadError(error);
  request_.body = std::move(parser_->get().body());
  request_.arrival = MonotonicNow();
  request_.cancelled = std::make_shared<std::atomic<bool>>(false);
  // As long as the application makes it: its calls have deadlines of their own.
  Enter(Phase::kHandling, absl::InfiniteDuration());
  WatchForHangup();
  const std::shared_ptr<std::atomic<bool>> cancelled = request_.cancelled;
  Request request = std::move(request_);
  request_.cancelled = cancelled;
  connections_.application->Handle(std::move(request), [self = shared_from_this()](Response response) mutable {
    // The last reference may have to go where the connection lives.
    asio::io_context& loop = self->loop_;
    asio::post(loop, [self = std::move(self), response = std::move(response)]() mutable {
      if (self->phase_ != Phase::kHandling) return;
      Error ignored;
      self->socket_.cancel(ignored);  // the watch
      self->Answer(std::move(response), /*more_to_come=*/false);
    });
  });
}

void Connection::WatchForHangup() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](Error error) {
    if (error || self->phase_ != Phase::kHandling) return;
    char byte = 0;
    const ssize_t size = recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return self->WatchForHangup();
    // The next request may be there already; what comes after it is not seen then.
    if (size <= 0) *self->request_.cancelled = true;
  });
}

void Connection::OnReadError(Error error) {
  if (!IsMalformed(error)) return Close();
  keep_alive_ = false;
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow) {
    return Refuse(431, absl::InvalidArgumentError(
                           absl::StrCat("the header is larger than the limit ", kMaxHeaderBytes, " bytes")));
  }
  if (error == beast::http::error::body_limit) {
    return Refuse(413, absl::InvalidArgumentError(
                           absl::StrCat("the body is larger than the limit ", connections_.options.max_body_bytes)));
  }
  Refuse(400, absl::InvalidArgumentError(absl::StrCat("not a request that this server reads: ", error.message())));
}

void Connection::Refuse(int status, const absl::Status& why) {
  Answer(connections_.application->Refuse(request_, status, why), /*more_to_come=*/true);
}

void Connection::Answer(Response response, bool more_to_come) {
  request_.cancelled = nullptr;
  parser_.reset();
  const absl::Duration limit = connections_.options.write_timeout;
  Enter(Phase::kWriting, connections_.in_a_hurry ? std::min(limit, kHurriedWrite) : limit);
  message_ = {};
  message_.version(version_);
  message_.result(static_cast<unsigned>(response.status));
  if (response.status == 499) message_.reason("Client Closed Request");
  message_.set(field::content_type, response.content_type);
  if (response.retry_after_s > 0) message_.set(field::retry_after, std::to_string(response.retry_after_s));
  if (!response.allow.empty()) message_.set(field::allow, response.allow);
  message_.content_length(response.body.size());
  if (!is_head_) message_.body() = std::move(response.body);
  keep_alive_ = keep_alive_ && !more_to_come && !connections_.draining;
  message_.keep_alive(keep_alive_);
  beast::http::async_write(socket_, message_, [self = shared_from_this(), more_to_come](Error error, size_t) {
    self->OnWritten(error, more_to_come);
  });
}

void Connection::OnWritten(Error error, bool more_to_come) {
  if (phase_ == Phase::kClosed) return;
  message_ = {};
  ReturnSlot();
  if (error) return Close();
  if (more_to_come) return Linger();
  keep_alive_ ? AwaitRequest() : Close();
}

void Connection::Linger() {
  // Closing with bytes unread would reset the connection, and the client might not see the answer.
  if (connections_.draining) return Close();
  Enter(Phase::kLingering, connections_.options.linger_timeout);
  Error ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  Discard();
}

void Connection::Discard() {
  socket_.async_read_some(asio::buffer(scratch_), [self = shared_from_this()](Error error, size_t) {
    if (self->phase_ == Phase::kClosed) return;
    error ? self->Close() : self->Discard();
  });
}

}  // namespace maxsim::http
