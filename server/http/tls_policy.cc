#include "server/http/tls_policy.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace maxsim::http {
namespace {

constexpr std::array<std::string_view, 3> kOpenPaths = {"/livez", "/readyz", "/metrics"};

}  // namespace

absl::Status CheckTls(const Request& request, PlainText plain_text, bool asks_clients) {
  const bool is_open = std::find(kOpenPaths.begin(), kOpenPaths.end(), request.path) != kOpenPaths.end();
  if (!request.encrypted && (!is_open || plain_text == PlainText::kNothing)) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.path, " is served through TLS only: ask by https:// (http.tls)"));
  }
  if (asks_clients && !is_open && !request.has_client_certificate) {
    return absl::UnauthenticatedError(
        absl::StrCat(request.path, " needs a client certificate signed by an authority in tls.client_ca_file"));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::http
