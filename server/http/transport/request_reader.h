// Frames requests on one connection: bytes go in as they arrive, requests come out. It knows no sockets. It is
// internal to server/http.
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

// Returns true for a value of Host: an address or a name, empty or not, and a port or none (RFC 9110, 7.2).
bool IsHost(std::string_view value);

// The class is used by one thread at a time. Members may throw std::bad_alloc; then the request is lost, and End,
// Begin and what is asked after kHeader are all that may be called.
class RequestReader {
 public:
  enum class Progress {
    kMore,      // more bytes are needed
    kHeader,    // the header is there: AcceptBody, or be done with the request
    kComplete,  // the body is there too
    kRefused,   // it is no request that is read here: see refusal()
  };
  struct Refusal {
    int status = 0;  // 400, 413 or 431
    absl::Status why;
  };

  // Both are those of TransportOptions.
  explicit RequestReader(std::string client_header, bool reads_trace_headers = false);
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Makes ready for the next request, which begins with the bytes that were received behind the last one.
  void Begin();

  // True when bytes of the next request have been received.
  bool has_bytes() const { return buffer_.size() > 0; }

  // Where the next bytes are to be received, and that `size` of them were.
  boost::asio::mutable_buffer Prepare();
  void Commit(size_t size) { buffer_.commit(size); }

  // Takes what has been received as far as the next step.
  Progress Advance();

  // May be called after kHeader. Lets the body come, which is refused beyond `max_bytes`: at once (kRefused) where the
  // header says so, else when it is seen.
  Progress AcceptBody(uint64_t max_bytes);

  // Returns the request, after kHeader. `body`, `arrival`, `peer` and `cancelled` are for others to set.
  Request& request() { return request_; }
  bool is_head() const { return is_head_; }
  bool keep_alive() const { return keep_alive_; }
  bool wants_continue() const { return wants_continue_; }
  bool has_body() const { return !parser_->is_done(); }  // that has not come, or not all of it
  unsigned version() const { return version_; }          // 11 is HTTP/1.1; it is, too, while the header is unknown
  size_t body_bytes() const { return parser_->get().body().size(); }

  // Returns the body, once, after kComplete.
  std::string TakeBody() { return std::move(parser_->get().body()); }

  // Returns why the request is refused, after kRefused.
  const Refusal& refusal() const { return refusal_; }

  // Gives back the memory of a body; of the rest, what is asked after kHeader can still be.
  void End();

 private:
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  Progress Refuse(int status, const std::string& why);
  Progress RefuseFor(const Error& error);
  Progress TakeHeader();
  // INVALID_ARGUMENT for a request whose end, or whose address, could be read in two ways.
  absl::Status CheckFraming() const;
  absl::Status CheckHost() const;
  absl::Status TakeTarget();
  // True when a header's field goes on in a line that begins with white space, `bytes` being the next of the header.
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
  // Holds each chunk against the limit, when the parser has its header. The parser's own limit counts a chunk once more
  // whenever the rest of an extension in quotes has not come yet.
  std::function<void(uint64_t size, boost::beast::string_view extension, Error& error)> check_chunk_;
};

}  // namespace maxsim::http
