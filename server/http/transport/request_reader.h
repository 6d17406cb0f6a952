// Splits the bytes of one connection into requests. The caller passes in the bytes as they arrive; the class uses no
// sockets. Internal to server/http.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "absl/status/status.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

// Returns whether `value` may be a Host: an address or a name, maybe empty, maybe with a port (RFC 9110, 7.2).
bool IsHost(std::string_view value);

// For one thread at a time. Members may throw std::bad_alloc. The request is then lost, and only End, Begin and the
// getters that are valid after kHeader may be called.
class RequestReader {
 public:
  enum class Progress {
    kMore,      // more bytes are needed
    kHeader,    // the header is complete: call AcceptBody, or drop the request
    kComplete,  // the body is complete too
    kRefused,   // the request is refused: see refusal()
  };
  struct Refusal {
    int status = 0;  // 400, 413 or 431
    absl::Status why;
  };

  // The arguments are the members of TransportOptions with these names.
  explicit RequestReader(std::string client_header, bool reads_trace_headers = false);
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Prepares for the next request, which begins with the bytes that were received after the last one.
  void Begin();

  // Returns true if bytes have been received that are not parsed yet.
  bool has_bytes() const { return buffer_.size() > 0; }

  // Prepare returns the buffer for the next bytes. Commit tells how many bytes the caller has put there.
  boost::asio::mutable_buffer Prepare();
  void Commit(size_t size) { buffer_.commit(size); }

  // Parses the received bytes up to the next kind of progress.
  Progress Advance();

  // May be called after kHeader. Accepts a body of up to `max_bytes`. Refuses a longer one (kRefused): immediately if
  // the header announces the length, otherwise when the limit is exceeded.
  Progress AcceptBody(uint64_t max_bytes);

  // Returns the request, after kHeader. The caller sets `body`, `arrival`, `peer` and `cancelled`.
  Request& request() { return request_; }
  bool is_head() const { return is_head_; }
  bool keep_alive() const { return keep_alive_; }
  bool wants_continue() const { return wants_continue_; }
  bool has_body() const { return !parser_->is_done(); }  // true while the body is incomplete
  unsigned version() const { return version_; }          // 11 for HTTP/1.1, and until the header is known
  size_t body_bytes() const { return parser_->get().body().size(); }

  // Returns the body, once, after kComplete.
  std::string TakeBody() { return std::move(parser_->get().body()); }

  // Returns why the request is refused, after kRefused.
  const Refusal& refusal() const { return refusal_; }

  // Frees the memory of a body. The getters that are valid after kHeader stay valid.
  void End();

 private:
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  Progress Refuse(int status, const std::string& why);
  Progress RefuseFor(const Error& error);
  Progress TakeHeader();
  // Returns INVALID_ARGUMENT for a request whose end, or whose host, a proxy in front of this server could read
  // differently (request smuggling).
  absl::Status CheckFraming() const;
  absl::Status CheckHost() const;
  absl::Status TakeTarget();
  // Returns whether a header field continues on a line that begins with white space. `bytes` are the next bytes of the
  // header.
  bool SeesFold(std::string_view bytes);

  const std::string client_header_;
  const bool reads_trace_headers_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Request request_;
  Refusal refusal_;
  uint64_t max_body_bytes_ = 0;
  bool is_head_ = false;
  bool keep_alive_ = false;
  bool wants_continue_ = false;
  unsigned version_ = 11;
  std::string line_end_;  // the last bytes of the header so far, two at most
  // Checks each chunk against the limit when its header has been parsed. The parser's own limit cannot be used: it
  // counts a chunk twice if a quoted extension arrives in pieces.
  std::function<void(uint64_t size, boost::beast::string_view extension, Error& error)> check_chunk_;
};

}  // namespace maxsim::http
