#include "server/encoder/http_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <concepts>
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
constexpr size_t kReadBytes = 64 * 1024;  // size of one read, as in Beast
constexpr size_t kMaxShownError = 200;

// After an answer with this status, the connection speaks another protocol.
constexpr unsigned kSwitchingProtocols = 101;

// The largest delay, in seconds, that is taken from a Retry-After header.
constexpr int kMaxRetryAfter = 3600;

std::optional<absl::Duration> RetryAfterOf(const http::fields& header) {
  const auto text = header[http::field::retry_after];
  int seconds = 0;
  // Retry-After may also be a date. A date is ignored, because using it needs a correct wall clock on this machine.
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

template <typename Then>
auto HttpConnection::InCall(Then then) {
  // Asio chooses among its overloads by the arguments that a handler takes. The constraint (requires) limits these to
  // the arguments that `then` takes.
  return [ self = shared_from_this(), exchange = exchange_, then = std::move(then) ](
      Error error, auto&&... rest) mutable requires std::invocable<Then&, Error, decltype(rest)...> {
    if (self->exchange_ == exchange) then(error, rest...);
  };
}

template <typename Work>
void HttpConnection::WithStream(Work work) {
  tls_ != nullptr ? work(*tls_) : work(*plain_);
}

void HttpConnection::Send(const HttpCall& call, absl::Duration timeout, uint64_t max_answer_bytes, Done done) {
  exchange_ = std::make_shared<Exchange>();
  exchange_->max_answer_bytes = max_answer_bytes;
  exchange_->is_first = !is_connected_;
  exchange_->done = std::move(done);
  auto& request = exchange_->request;
  request.version(11);
  request.method(call.is_post ? http::verb::post : http::verb::get);
  request.target(call.path);
  request.set(http::field::host, peer_.url.HostHeader());
  request.set(http::field::user_agent, "maxsimd");
  request.set(http::field::accept, "application/json, application/octet-stream");
  if (!peer_.token.empty()) request.set(http::field::authorization, Cat("Bearer ", peer_.token));
  if (!call.trace.traceparent.empty()) request.set("traceparent", call.trace.traceparent);
  if (!call.trace.tracestate.empty()) request.set("tracestate", call.trace.tracestate);
  if (call.is_post) {
    request.set(http::field::content_type, "application/json");
    request.body() = call.body;
    request.prepare_payload();
  }
  timer_.expires_after(absl::ToChronoNanoseconds(timeout));
  timer_.async_wait(InCall([this, timeout](Error error) {
    if (error) return;
    HttpOutcome outcome;
    outcome.error = absl::UnavailableError(Cat("no answer within ", absl::FormatDuration(timeout)));
    outcome.timed_out = true;
    Finish(std::move(outcome));
  }));
  is_connected_ ? Write() : Connect();
}

bool HttpConnection::IsUsable() {
  if (!is_connected_ || buffer_.size() > 0) return false;
  char byte = 0;
  const ssize_t size = recv(socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  // A TLS peer may send session tickets between calls. OpenSSL reads them together with the next answer, so the
  // connection is usable.
  return size > 0 && tls_ != nullptr;
}

void HttpConnection::Close() {
  exchange_ = nullptr;
  is_connected_ = false;
  Error ignored;
  timer_.cancel(ignored);
  resolver_.cancel();
  socket().close(ignored);
}

void HttpConnection::Connect() {
  const auto on_addresses = [this](Error error, const Tcp::resolver::results_type& addresses) {
    if (error) return Fail("cannot look up its host", error);
    asio::async_connect(socket(), addresses, InCall([this](Error failed, const Tcp::endpoint&) {
                          if (failed) return Fail("cannot connect", failed);
                          Error ignored;
                          socket().set_option(Tcp::no_delay(true), ignored);
                          tls_ != nullptr ? Handshake() : Write();
                        }));
  };
  resolver_.async_resolve(peer_.url.host, peer_.url.port, Tcp::resolver::numeric_service, InCall(on_addresses));
}

void HttpConnection::Handshake() {
  Error is_name;
  asio::ip::make_address(peer_.server_name, is_name);
  if (is_name) SSL_set_tlsext_host_name(tls_->native_handle(), peer_.server_name.c_str());
  tls_->set_verify_callback(asio::ssl::host_name_verification(peer_.server_name));
  tls_->async_handshake(asio::ssl::stream_base::client,
                        InCall([this](Error error) { error ? Fail("the TLS handshake failed", error) : Write(); }));
}

void HttpConnection::Write() {
  is_connected_ = true;
  WithStream([this](auto& stream) {
    http::async_write(stream, exchange_->request, InCall([this](Error error, size_t) {
                        // An encoder may refuse a call and close the connection before it has read the whole call.
                        // Its answer can still be read.
                        if (error && error != asio::error::broken_pipe && error != asio::error::connection_reset) {
                          return Fail("cannot send", error);
                        }
                        exchange_->is_sent = !error;
                        Read();
                      }));
  });
}

void HttpConnection::Read() {
  auto& parser = exchange_->parser.emplace();
  parser.header_limit(kMaxHeaderBytes);
  // Beast 1.74 ignores the limit if a header states the body's length, so ReadBody checks that length itself.
  parser.body_limit(std::numeric_limits<uint64_t>::max());
  WithStream([this, &parser](auto& stream) {
    http::async_read_header(stream, buffer_, parser,
                            InCall([this](Error error, size_t) { error ? OnAnswer(error) : OnHeader(); }));
  });
}

void HttpConnection::OnHeader() {
  // An interim answer (RFC 9110, 15.2) comes before the final one. If the interim answer were taken for the final
  // one, the final answer would be taken for the answer to the next call.
  const unsigned status = exchange_->parser->get().result_int();
  const bool is_interim = status >= 100 && status < 200 && status != kSwitchingProtocols;
  if (!is_interim) return ReadBody();
  exchange_->has_interim_answer = true;
  Read();
}

void HttpConnection::ReadBody() {
  auto& parser = *exchange_->parser;
  if (const auto length = parser.content_length(); length && *length > exchange_->max_answer_bytes) {
    return OnAnswer(http::error::body_limit);
  }
  parser.body_limit(exchange_->max_answer_bytes);
  TakeBody();
}

void HttpConnection::TakeBody() {
  auto& parser = *exchange_->parser;
  // Beast 1.74 fails an assertion if it gets only four bytes of the last chunk. That chunk has at least five bytes.
  const size_t min_bytes = parser.chunked() ? 5 : 1;
  Error error;
  while (!parser.is_done() && buffer_.size() >= min_bytes && error != http::error::need_more) {
    buffer_.consume(parser.put(buffer_.data(), error));
    if (error && error != http::error::need_more) return OnAnswer(error);
  }
  if (parser.is_done()) return OnAnswer({});
  // The parser has left all of these bytes unread. So they are the header line of a chunk that has no end yet.
  if (buffer_.size() > kMaxHeaderBytes) return OnAnswer(http::error::header_limit);
  WithStream([this](auto& stream) {
    stream.async_read_some(buffer_.prepare(kReadBytes), InCall([this](Error failed, size_t size) {
                             buffer_.commit(size);
                             if (failed == asio::error::eof) return OnEnd();
                             failed ? OnAnswer(failed) : TakeBody();
                           }));
  });
}

void HttpConnection::OnEnd() {
  Error error;
  exchange_->parser->put_eof(error);  // sets an error if the answer states its length
  OnAnswer(error);
}

void HttpConnection::OnAnswer(Error error) {
  if (error == http::error::body_limit) {
    HttpOutcome outcome;
    outcome.error = absl::UnavailableError(Cat("its answer has more than ", exchange_->max_answer_bytes, " bytes"));
    return Finish(std::move(outcome));
  }
  if (error)
    return Fail(exchange_->HasAnswer() ? "its answer is cut off or not HTTP" : "it closed the connection", error);
  HttpOutcome outcome;
  http::response<http::string_body> answer = exchange_->parser->release();
  is_connected_ = exchange_->is_sent && answer.keep_alive() && answer.result_int() != kSwitchingProtocols;
  outcome.status = answer.result_int();
  outcome.retry_after = RetryAfterOf(answer);
  outcome.body = std::move(answer.body());
  Finish(std::move(outcome));
}

void HttpConnection::Fail(std::string_view what, Error error) {
  HttpOutcome outcome;
  outcome.error = absl::UnavailableError(Cat(what, ": ", Printable(error.message(), kMaxShownError)));
  outcome.was_stale = !exchange_->is_first && !exchange_->HasAnswer();
  Finish(std::move(outcome));
}

void HttpConnection::Finish(HttpOutcome outcome) {
  Error ignored;
  timer_.cancel(ignored);
  Done done = std::move(exchange_->done);
  exchange_ = nullptr;
  if (!outcome.error.ok()) Close();
  done(std::move(outcome));
}

}  // namespace maxsim::encoder
