// One HTTP/1.1 connection to an encoder, in plain text or TLS, that makes one call at a time and stays open between
// calls. Internal to server/encoder. Not thread-safe: use it only on the thread of its loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/encoder/encoder.h"
#include "server/encoder/http_options.h"

namespace maxsim::encoder {

// The settings that all connections to one encoder share.
struct HttpPeer {
  EncoderUrl url;
  std::string server_name;                         // for TLS: sent as SNI and expected in the encoder's certificate
  std::string token;                               // sent as "Authorization: Bearer ..."; "": no header
  std::unique_ptr<boost::asio::ssl::context> tls;  // null for plain text
};

struct HttpCall {
  bool is_post = true;
  std::string path;  // the base path included
  std::string body;
  TraceHeaders trace = {};
};

struct HttpOutcome {
  absl::Status error;  // UNAVAILABLE if no complete answer came
  bool timed_out = false;
  // The call used a kept-alive connection, which closed before any byte of the answer came. The encoder has probably
  // not seen the call.
  bool was_stale = false;
  // Set only if there is no error.
  unsigned status = 0;
  std::string body;
  std::optional<absl::Duration> retry_after;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Done = absl::AnyInvocable<void(HttpOutcome)>;

  // `loop` and `peer` must outlive it.
  HttpConnection(boost::asio::io_context* loop, const HttpPeer* peer);

  // Makes a call, and connects first if necessary. `done` runs once on the loop's thread, after Send has returned, but
  // not if Close comes first. Only one call may be in progress.
  void Send(const HttpCall& call, absl::Duration timeout, uint64_t max_answer_bytes, Done done);

  // Returns whether the connection can be used for another call: the encoder has neither closed it nor sent extra
  // bytes. To be called between calls.
  bool IsUsable();

  void Close();

 private:
  using Error = boost::system::error_code;
  using Socket = boost::asio::ip::tcp::socket;

  // One call, with everything that its operations read and write. The handlers share it, so an operation that is still
  // pending when the call ends (because of the time limit, for example) never touches freed memory.
  struct Exchange {
    // Returns true once a byte of an answer has arrived.
    bool HasAnswer() const { return has_interim_answer || (parser.has_value() && parser->got_some()); }

    boost::beast::http::request<boost::beast::http::string_body> request;
    // Set by Read.
    std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser;
    uint64_t max_answer_bytes = 0;
    bool is_first = true;  // on this connection
    bool has_interim_answer = false;
    bool is_sent = false;  // the whole request
    Done done;
  };

  // Returns a handler for an operation of the current call. The handler keeps the connection and the call alive, and
  // calls `then` unless the call has already ended when the operation completes.
  template <typename Then>
  auto InCall(Then then);

  template <typename Work>
  void WithStream(Work work);
  Socket& socket() { return tls_ != nullptr ? tls_->next_layer() : *plain_; }
  void Connect();
  void Handshake();
  void Write();
  void Read();
  void OnHeader();
  void ReadBody();
  // Moves the received part of the body to the answer, and reads on until the body is complete.
  void TakeBody();
  void OnEnd();
  void OnAnswer(Error error);
  void Fail(std::string_view what, Error error);
  void Finish(HttpOutcome outcome);

  const HttpPeer& peer_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<Socket> plain_;
  std::unique_ptr<boost::asio::ssl::stream<Socket>> tls_;
  boost::beast::flat_buffer buffer_;
  bool is_connected_ = false;
  std::shared_ptr<Exchange> exchange_;  // null while no call is in progress
};

}  // namespace maxsim::encoder
