#include "server/http/transport/request_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/none.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace maxsim::http {
namespace {

namespace beast = boost::beast;
using beast::http::field;

// The maximum number of bytes that are received before they are parsed. A whole header must fit.
constexpr size_t kBufferBytes = 64 * 1024;
// The number of bytes to receive at a time while a header is read. Most headers are shorter, and an idle connection
// keeps no larger buffer.
constexpr size_t kHeaderReadBytes = 4 * 1024;

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=";

template <typename View>
std::string Text(View view) {
  return std::string(view.data(), view.size());
}

// Joins all lines of a header field into one list.
template <typename Header, typename Name>
std::string AllLines(const Header& header, Name name) {
  std::string all;
  const auto lines = header.equal_range(name);
  for (auto line = lines.first; line != lines.second; ++line) {
    absl::StrAppend(&all, all.empty() ? "" : ", ", Text(line->value()));
  }
  return all;
}

bool IsPort(std::string_view port) { return port.size() <= 5 && port.find_first_not_of(kDigits) == port.npos; }

}  // namespace

bool IsHost(std::string_view value) {
  if (value.starts_with('[')) {
    const size_t end = value.find(']');
    if (end == value.npos || end < 3) return false;
    const std::string_view address = value.substr(1, end - 1);
    if (address.find_first_not_of("0123456789abcdefABCDEF:.v") != address.npos) return false;
    const std::string_view port = value.substr(end + 1);
    return port.empty() || (port[0] == ':' && IsPort(port.substr(1)));
  }
  const size_t colon = std::min(value.find(':'), value.size());
  if (colon < value.size() && !IsPort(value.substr(colon + 1))) return false;
  for (size_t at = 0; at < colon; ++at) {
    if (value[at] == '%') {
      if (at + 2 >= colon || value.substr(at + 1, 2).find_first_not_of(kHexDigits) != value.npos) return false;
    } else if (kNameBytes.find(value[at]) == kNameBytes.npos) {
      return false;
    }
  }
  return true;
}

RequestReader::RequestReader(std::string client_header, bool reads_trace_headers)
    : client_header_(std::move(client_header)), reads_trace_headers_(reads_trace_headers), buffer_(kBufferBytes) {
  check_chunk_ = [this](uint64_t size, beast::string_view, Error& error) {
    if (size > max_body_bytes_ - body_bytes()) error = beast::http::error::body_limit;
  };
}

void RequestReader::Begin() {
  End();
  request_ = Request();
  is_head_ = keep_alive_ = wants_continue_ = false;
  version_ = 11;
  line_end_.clear();
  parser_.emplace();
  parser_->header_limit(kMaxHeaderBytes);
  // AcceptBody sets the real limit, after the client of this request is known.
  parser_->body_limit(std::numeric_limits<uint64_t>::max());
  parser_->on_chunk_header(check_chunk_);
}

void RequestReader::End() {
  parser_.reset();
  if (buffer_.size() == 0 && buffer_.capacity() > kHeaderReadBytes) buffer_.shrink_to_fit();
}

boost::asio::mutable_buffer RequestReader::Prepare() {
  const size_t wanted = parser_->is_header_done() ? kBufferBytes : kHeaderReadBytes;
  return buffer_.prepare(std::min(wanted, kBufferBytes - buffer_.size()));
}

RequestReader::Progress RequestReader::Advance() {
  if (parser_->is_done()) return Progress::kComplete;
  const bool in_header = !parser_->is_header_done();
  while (buffer_.size() > 0) {
    const auto bytes = buffer_.data();
    Error error;
    const size_t used = parser_->put(bytes, error);
    if (in_header && SeesFold({static_cast<const char*>(bytes.data()), used})) {
      return Refuse(400, "a header's line begins with white space");
    }
    buffer_.consume(used);
    if (error == beast::http::error::need_more) {
      return buffer_.size() < kBufferBytes ? Progress::kMore : RefuseFor(beast::http::error::buffer_overflow);
    }
    if (error) return RefuseFor(error);
    if (in_header && parser_->is_header_done()) return TakeHeader();
    if (parser_->is_done()) return Progress::kComplete;
  }
  return Progress::kMore;
}

RequestReader::Progress RequestReader::AcceptBody(uint64_t max_bytes) {
  if (const auto length = parser_->content_length(); length && *length > max_bytes) {
    return Refuse(413, absl::StrCat("the body has ", *length, " bytes, more than the limit ", max_bytes));
  }
  max_body_bytes_ = max_bytes;
  parser_->body_limit(boost::none);  // the length is in order, and check_chunk_ looks at chunks
  parser_->eager(true);
  return Advance();
}

RequestReader::Progress RequestReader::Refuse(int status, const std::string& why) {
  refusal_ = {.status = status, .why = absl::InvalidArgumentError(why)};
  return Progress::kRefused;
}

RequestReader::Progress RequestReader::RefuseFor(const Error& error) {
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow) {
    return Refuse(431, absl::StrCat("the header is larger than the limit ", kMaxHeaderBytes, " bytes"));
  }
  if (error == beast::http::error::body_limit) {
    return Refuse(413, absl::StrCat("the body is larger than the limit ", max_body_bytes_));
  }
  return Refuse(400, absl::StrCat("the request cannot be read: ", error.message()));
}

RequestReader::Progress RequestReader::TakeHeader() {
  const auto& header = parser_->get();
  version_ = header.version();
  keep_alive_ = header.keep_alive();
  is_head_ = header.method() == beast::http::verb::head;
  // Clients of HTTP/1.0 do not know "100-continue".
  wants_continue_ = version_ >= 11 && beast::iequals(header[field::expect], "100-continue");
  request_.method = Text(header.method_string());
  request_.authorization = Text(header[field::authorization]);
  request_.host = Text(header[field::host]);
  request_.origin = AllLines(header, field::origin);
  request_.if_none_match = AllLines(header, field::if_none_match);
  request_.content_encoding = AllLines(header, field::content_encoding);
  if (!client_header_.empty()) request_.client_id = Text(header[client_header_]);
  if (reads_trace_headers_ && header.count("traceparent") == 1) {
    request_.traceparent = Text(header["traceparent"]);
    request_.tracestate = AllLines(header, "tracestate");
  }
  absl::Status status = TakeTarget();
  if (status.ok()) status = CheckHost();
  if (status.ok()) status = CheckFraming();
  if (!status.ok()) return Refuse(400, std::string(status.message()));
  return Progress::kHeader;
}

absl::Status RequestReader::TakeTarget() {
  std::string target = Text(parser_->get().target());
  // A request that was meant for a proxy may have a whole URL as its target (RFC 9112, 3.2.2).
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    const size_t host_end = std::min(target.find_first_of("/?", scheme.size()), target.size());
    const std::string host = target.substr(scheme.size(), host_end - scheme.size());
    if (host.empty() || !IsHost(host)) return absl::InvalidArgumentError("the target's host is not valid");
    request_.host = host;
    target.erase(0, host_end);
    if (target.empty() || target[0] != '/') target.insert(0, "/");
    break;
  }
  request_.path = target.substr(0, target.find('?'));
  const bool is_path = absl::StartsWith(target, "/");
  // Targets of any other form belong to methods that no path of this server has.
  if (is_path || target == "*" || request_.method == "CONNECT") return absl::OkStatus();
  return absl::InvalidArgumentError("the target is not a path that begins with /");
}

absl::Status RequestReader::CheckHost() const {
  const auto& header = parser_->get();
  const size_t count = header.count(field::host);
  if (count > 1) return absl::InvalidArgumentError("Host: appears twice");
  if (count == 0 && header.version() >= 11) return absl::InvalidArgumentError("Host: is missing");
  if (!IsHost(Text(header[field::host]))) return absl::InvalidArgumentError("Host: is not a host and a port");
  return absl::OkStatus();
}

absl::Status RequestReader::CheckFraming() const {
  const auto& header = parser_->get();
  if (header.count(field::authorization) > 1) return absl::InvalidArgumentError("Authorization: appears twice");
  // Checks the headers for which the parser is too lenient: of a list of lengths it uses the first, and of several
  // codings it looks only at the last.
  if (header.count(field::content_length) > 1) return absl::InvalidArgumentError("Content-Length: appears twice");
  if (header.count(field::content_length) > 0) {
    const std::string length = Text(header[field::content_length]);
    if (length.empty() || length.find_first_not_of(kDigits) != std::string::npos) {
      return absl::InvalidArgumentError("Content-Length: is not a number");
    }
  }
  if (header.count(field::transfer_encoding) == 0) return absl::OkStatus();
  if (header.count(field::transfer_encoding) > 1 || header.count(field::content_length) > 0 || header.version() < 11 ||
      !beast::iequals(header[field::transfer_encoding], "chunked")) {
    return absl::InvalidArgumentError("Transfer-Encoding: only chunked is accepted, once and without Content-Length");
  }
  return absl::OkStatus();
}

bool RequestReader::SeesFold(std::string_view bytes) {
  for (const char byte : bytes) {
    if ((byte == ' ' || byte == '\t') && line_end_ == "\r\n") return true;
    if (line_end_.size() == 2) line_end_.erase(0, 1);
    line_end_ += byte;
  }
  return false;
}

}  // namespace maxsim::http
