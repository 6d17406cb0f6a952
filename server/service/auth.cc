#include "server/service/auth.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/token_file.h"

namespace maxsim::service {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

bool Holds(const std::vector<std::string>& tokens, std::string_view token) {
  bool known = false;
  for (const std::string& candidate : tokens) known |= EqualInConstantTime(candidate, token);
  return known;
}

}  // namespace

absl::Status Authenticator::Load(Scope scope) {
  const TokenFile& wanted = file_of(scope);
  if (wanted.path.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string>> tokens = ReadTokenFile(wanted.key, wanted.path);
  if (!tokens.ok()) return tokens.status();
  MutexLock lock(&mutex_);
  (scope == Scope::kAdmin ? admin_tokens_ : search_tokens_) = *std::move(tokens);
  return absl::OkStatus();
}

absl::Status Authenticator::Load() {
  absl::Status search = Load(Scope::kSearch);
  absl::Status admin = Load(Scope::kAdmin);
  if (search.ok()) return admin;
  if (admin.ok()) return search;
  return absl::Status(search.code(), absl::StrCat(search.message(), "; ", admin.message()));
}

size_t Authenticator::num_tokens(Scope scope) const {
  MutexLock lock(&mutex_);
  return (scope == Scope::kAdmin ? admin_tokens_ : search_tokens_).size();
}

absl::Status Authenticator::Check(std::string_view authorization, Scope scope) const {
  if (!enabled(scope)) return absl::OkStatus();
  const std::string scheme = absl::AsciiStrToLower(std::string(authorization.substr(0, kScheme.size())));
  if (scheme != kScheme) {
    return absl::UnauthenticatedError("the call carries no bearer token (metadata or header `authorization`)");
  }
  const std::string_view token = authorization.substr(kScheme.size());
  bool may_search = false;
  bool may_administer = false;
  {
    MutexLock lock(&mutex_);
    may_search = Holds(search_tokens_, token);
    may_administer = Holds(admin_tokens_, token);
  }
  if (may_administer) return absl::OkStatus();
  if (!may_search) return absl::UnauthenticatedError("the bearer token is not known");
  if (scope == Scope::kSearch || admin_file_.path.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError("the bearer token may search; this call is for those of auth.admin_tokens_file");
}

}  // namespace maxsim::service
