#include "server/tracing/endpoint.h"

#include "absl/strings/numbers.h"
#include "base/text.h"

namespace maxsim::tracing {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kHostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
constexpr std::string_view kAddressLetters = "0123456789abcdefABCDEF:.";
constexpr int kMaxPort = 65535;

bool IsMadeOf(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == text.npos;
}

bool IsHost(std::string_view host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) return IsMadeOf(host.substr(1, host.size() - 2), kAddressLetters);
  return IsMadeOf(host, kHostLetters);
}

}  // namespace

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  Endpoint endpoint;
  std::string_view authority = text;
  endpoint.is_tls = authority.starts_with(kTls);
  if (endpoint.is_tls) {
    authority.remove_prefix(kTls.size());
  } else if (authority.starts_with(kPlain)) {
    authority.remove_prefix(kPlain.size());
  }
  const size_t colon = authority.rfind(':');
  const std::string_view host = authority.substr(0, colon);
  const std::string_view digits = colon == authority.npos ? std::string_view() : authority.substr(colon + 1);
  int port = 0;
  const bool has_port = IsMadeOf(digits, kDigits) && absl::SimpleAtoi(ForStrCat(digits), &port);
  if (!has_port || port < 1 || port > kMaxPort || !IsHost(host)) {
    return Invalid(Quote(text), " is not host:port, http://host:port or https://host:port, with a port from 1 to ",
                   kMaxPort);
  }
  endpoint.authority = std::string(authority);
  return endpoint;
}

}  // namespace maxsim::tracing
