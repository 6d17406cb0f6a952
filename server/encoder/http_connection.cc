#include "server/encoder/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "absl/strings/numbers.h"
#include "base/text.h"

namespace maxsim::encoder {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

constexpr uint32_t kMaxHeaderBytes = 16 * 1024;
constexpr size_t kMaxShownError = 200;

// The largest Retry-After that is passed on, in seconds.
constexpr int kMaxRetryAfter = 3600;

std::optional<absl::Duration> RetryAfterOf(const http::fields& header) {
  const auto text = header[http::field::retry_after];
  int seconds = 0;
  // The other form, a date, is not passed on: it would need this machine's wall clock to be right.
  if (!absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &seconds) || seconds < 0) return std::nullopt;
  return absl::Seconds(std::min(seconds, kMaxRetryAfter));
}

}  // namespace

HttpConnection::HttpConnection(asio::io_context* loop, const HttpPeer* peer)
    : peer_(*peer), resolver_(*loop), timer_(*loop) {
  if (peer->tls != nullptr) {
    tls_ = std::make_unique<asio::ssl::stream<Socket>>(*loop, *peer->tls);
  } else {
    plain_ = std::make_unique<Socket>(*loop);
  }
}

template <typename Work>
void HttpConnection::WithStream(Work work) {
  tls_ != nullptr ? work(*tls_) : work(*plain_);
}

void HttpConnection::Send(const HttpCall& call, absl::Duration timeout, uint64_t max_answer_bytes, Done done) {
  done_ = std::move(done);
  max_answer_bytes_ = max_answer_bytes;
  request_ = {};
  request_.version(11);
  request_.method(call.is_post ? http::verb::post : http::verb::get);
  request_.target(call.path);
  request_.set(http::field::host, peer_.url.HostHeader());
  request_.set(http::field::user_agent, "maxsimd");
  request_.set(http::field::accept, "application/json, application/octet-stream");
  if (!peer_.authorization.empty()) request_.set(http::field::authorization, peer_.authorization);
  if (!call.trace.traceparent.empty()) request_.set("traceparent", call.trace.traceparent);
  if (!call.trace.tracestate.empty()) request_.set("tracestate", call.trace.tracestate);
  if (call.is_post) {
    request_.set(http::field::content_type, "application/json");
    request_.body() = call.body;
    request_.prepare_payload();
  }
  timer_.expires_after(absl::ToChronoNanoseconds(timeout));
  timer_.async_wait([self = shared_from_this(), timeout](Error error) {
    // The timer may have been set anew after this was on its way.
    if (error || self->done_ == nullptr || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
    HttpOutcome outcome;
    outcome.error = absl::UnavailableError(Cat("no answer within ", absl::FormatDuration(timeout)));
    outcome.timed_out = true;
    self->Finish(std::move(outcome));
  });
  was_used_ = is_connected_;
  is_connected_ ? Write() : Connect();
}

bool HttpConnection::IsUsable() {
  if (!is_connected_ || buffer_.size() > 0) return false;
  char byte = 0;
  const ssize_t size = recv(socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  // A TLS peer may send tickets between calls, which OpenSSL takes with the next answer.
  return size > 0 && tls_ != nullptr;
}

void HttpConnection::Close() {
  done_ = nullptr;
  is_connected_ = false;
  Error ignored;
  timer_.cancel(ignored);
  resolver_.cancel();
  socket().close(ignored);
}

void HttpConnection::Connect() {
  resolver_.async_resolve(peer_.url.host, peer_.url.port, Tcp::resolver::numeric_service,
                          [self = shared_from_this()](Error error, const Tcp::resolver::results_type& addresses) {
                            if (self->done_ == nullptr) return;
                            if (error) return self->Fail("cannot look up its host", error);
                            asio::async_connect(self->socket(), addresses, [self](Error failed, const Tcp::endpoint&) {
                              if (self->done_ == nullptr) return;
                              if (failed) return self->Fail("cannot connect", failed);
                              Error ignored;
                              self->socket().set_option(Tcp::no_delay(true), ignored);
                              self->tls_ != nullptr ? self->Handshake() : self->Write();
                            });
                          });
}

void HttpConnection::Handshake() {
  Error is_name;
  asio::ip::make_address(peer_.server_name, is_name);
  if (is_name) SSL_set_tlsext_host_name(tls_->native_handle(), peer_.server_name.c_str());
  tls_->set_verify_callback(asio::ssl::host_name_verification(peer_.server_name));
  tls_->async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](Error error) {
    if (self->done_ == nullptr) return;
    if (error) return self->Fail("the TLS handshake failed", error);
    self->Write();
  });
}

void HttpConnection::Write() {
  is_connected_ = true;
  WithStream([this](auto& stream) {
    http::async_write(stream, request_, [self = shared_from_this()](Error error, size_t) {
      if (self->done_ == nullptr) return;
      // An encoder may refuse a call before it has read it, and close; what it said can still be read then.
      if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
        return self->Fail("cannot send", error);
      }
      self->Read();
    });
  });
}

void HttpConnection::Read() {
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  // Beast 1.74 does not heed the limit where a header says the length, so that the length is looked at below.
  parser_->body_limit(std::numeric_limits<uint64_t>::max());
  WithStream([this](auto& stream) {
    http::async_read_header(stream, buffer_, *parser_, [self = shared_from_this()](Error error, size_t) {
      if (self->done_ == nullptr) return;
      error ? self->OnAnswer(error) : self->ReadBody();
    });
  });
}

void HttpConnection::ReadBody() {
  if (const auto length = parser_->content_length(); length && *length > max_answer_bytes_) {
    return OnAnswer(http::error::body_limit);
  }
  parser_->body_limit(max_answer_bytes_);
  WithStream([this](auto& stream) {
    http::async_read(stream, buffer_, *parser_, [self = shared_from_this()](Error error, size_t) {
      if (self->done_ != nullptr) self->OnAnswer(error);
    });
  });
}

void HttpConnection::OnAnswer(Error error) {
  if (error == http::error::body_limit) {
    HttpOutcome outcome;
    outcome.error = absl::UnavailableError(Cat("its answer has more than ", max_answer_bytes_, " bytes"));
    return Finish(std::move(outcome));
  }
  if (error) return Fail(parser_->got_some() ? "its answer is cut off or no HTTP" : "it closed the connection", error);
  HttpOutcome outcome;
  http::response<http::string_body> answer = parser_->release();
  is_connected_ = answer.keep_alive();
  outcome.status = answer.result_int();
  outcome.retry_after = RetryAfterOf(answer);
  outcome.body = std::move(answer.body());
  Finish(std::move(outcome));
}

void HttpConnection::Fail(std::string_view what, Error error) {
  HttpOutcome outcome;
  outcome.error = absl::UnavailableError(Cat(what, ": ", Printable(error.message(), kMaxShownError)));
  outcome.was_stale = was_used_ && (!parser_.has_value() || !parser_->got_some());
  Finish(std::move(outcome));
}

void HttpConnection::Finish(HttpOutcome outcome) {
  Error ignored;
  timer_.cancel(ignored);
  parser_.reset();
  request_ = {};
  Done done = std::exchange(done_, nullptr);
  if (!outcome.error.ok()) Close();
  done(std::move(outcome));
}

}  // namespace maxsim::encoder
