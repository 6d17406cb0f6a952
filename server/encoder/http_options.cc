#include "server/encoder/http_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace maxsim::encoder {
namespace {

absl::Status Refuse(std::string_view text) {
  return Invalid(Quote(text), " is not http://host[:port][/path] or https://host[:port][/path]");
}

bool Strip(std::string_view prefix, std::string_view& text) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string EncoderUrl::HostHeader() const {
  const bool brackets = host.find(':') != std::string::npos;
  return Cat(brackets ? "[" : "", host, brackets ? "]:" : ":", port);
}

absl::StatusOr<EncoderUrl> ParseEncoderUrl(std::string_view text) {
  // Refuse characters that are not allowed in a request line or a header, and those that would begin a query, a
  // fragment or user information.
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '?' || c == '#' || c == '@') return Refuse(text);
  }
  EncoderUrl url;
  std::string_view rest = text;
  if (Strip("https://", rest)) {
    url.is_tls = true;
  } else if (!Strip("http://", rest)) {
    return Refuse(text);
  }
  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) url.base = std::string(rest.substr(slash));
  while (!url.base.empty() && url.base.back() == '/') url.base.pop_back();
  size_t host_end = authority.rfind(':');
  if (!authority.empty() && authority.front() == '[') {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return Refuse(text);
    url.host = std::string(authority.substr(1, bracket - 1));
    host_end = bracket + 1 == authority.size() ? std::string_view::npos : bracket + 1;
    if (host_end != std::string_view::npos && authority[host_end] != ':') return Refuse(text);
  } else {
    url.host = std::string(authority.substr(0, host_end));
    if (url.host.find(':') != std::string::npos) return Refuse(text);
  }
  url.port =
      host_end == std::string_view::npos ? (url.is_tls ? "443" : "80") : std::string(authority.substr(host_end + 1));
  int port = 0;
  const bool is_number = !url.port.empty() && url.port.find_first_not_of("0123456789") == std::string::npos;
  if (url.host.empty() || !is_number || !absl::SimpleAtoi(url.port, &port) || port < 1 || port > 65535) {
    return Refuse(text);
  }
  return url;
}

bool TellsKindsApart(const HttpEncoderOptions& options) {
  if (options.dialect == Dialect::kMaxsim || options.dialect == Dialect::kOpenAi) return true;
  return options.identity.query_prefix != options.identity.document_prefix ||
         options.query_prompt_name != options.document_prompt_name;
}

}  // namespace maxsim::encoder
