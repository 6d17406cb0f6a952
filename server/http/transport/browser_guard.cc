#include "server/http/transport/browser_guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace maxsim::http {
namespace {

constexpr size_t kLongestQuote = 100;

// Suffixes for private use (RFC 6761, RFC 6762, RFC 8375, and ICANN's .internal). Short names of Kubernetes services
// end with .svc, which is not a top-level domain.
constexpr std::array<std::string_view, 5> kPrivateSuffixes = {".localhost", ".local", ".internal", ".home.arpa",
                                                              ".svc"};

bool IsIpv4(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789.") == name.npos &&
         std::count(name.begin(), name.end(), '.') == 3;
}

std::string MachineName() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return HostNameOf(name.data());
}

bool Holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string HostNameOf(std::string_view authority) {
  std::string name = absl::AsciiStrToLower(std::string(authority));
  if (!name.empty() && name.front() == '[') return name.substr(0, name.find(']') + 1);
  name.resize(std::min(name.size(), name.find(':')));
  if (!name.empty() && name.back() == '.') name.pop_back();
  return name;
}

bool IsPrivateName(std::string_view name) {
  if (name.empty() || name.front() == '[' || IsIpv4(name)) return true;
  if (name.find('.') == name.npos) return true;  // a top-level domain is not a host
  return std::any_of(kPrivateSuffixes.begin(), kPrivateSuffixes.end(),
                     [name](std::string_view suffix) { return name.ends_with(suffix); });
}

BrowserGuard::BrowserGuard(const std::string& listening_host, const std::vector<std::string>& allowed_hosts)
    : own_names_{HostNameOf(listening_host), MachineName()} {
  for (const std::string& host : allowed_hosts) {
    allows_all_ |= host == "*";
    allowed_names_.push_back(HostNameOf(host));
  }
}

absl::Status BrowserGuard::CheckHost(std::string_view host) const {
  const std::string name = HostNameOf(host);
  if (allows_all_ || IsPrivateName(name) || Holds(own_names_, name) || Holds(allowed_names_, name)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("Host: is \"", Printable(host, kLongestQuote),
                   "\", a name that this server does not know as its own: add it to http.allowed_hosts, or set "
                   "auth.tokens_file"));
}

absl::Status BrowserGuard::CheckOrigin(std::string_view origin, std::string_view host) const {
  if (origin.empty() || allows_all_) return absl::OkStatus();  // clients other than browsers send no Origin
  const size_t scheme_end = origin.find("://");
  if (scheme_end != origin.npos) {
    const std::string_view authority = origin.substr(scheme_end + 3);
    if (absl::EqualsIgnoreCase(std::string(authority), std::string(host)) ||
        Holds(allowed_names_, HostNameOf(authority))) {
      return absl::OkStatus();
    }
  }
  return absl::PermissionDeniedError(absl::StrCat("Origin: is \"", Printable(origin, kLongestQuote),
                                                  "\", a page of another site than \"", Printable(host, kLongestQuote),
                                                  "\": add its host to http.allowed_hosts, or set auth.tokens_file"));
}

absl::Status BrowserGuard::Check(const Request& request) const {
  // With TLS, the certificate has already proved to the browser that the name is this server's.
  if (!request.encrypted) {
    if (absl::Status status = CheckHost(request.host); !status.ok()) return status;
  }
  // GET and HEAD change nothing, and browsers let only pages of the same site read the answers. So accept any origin.
  if (request.method == "GET" || request.method == "HEAD") return absl::OkStatus();
  return CheckOrigin(request.origin, request.host);
}

}  // namespace maxsim::http
