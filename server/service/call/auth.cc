#include "server/service/call/auth.h"

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
  const TokenFile& wanted = files_[IndexOf(scope)];
  if (wanted.path.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string>> tokens = ReadTokenFile(wanted.key, wanted.path);
  if (!tokens.ok()) return tokens.status();
  MutexLock lock(&mutex_);
  tokens_[IndexOf(scope)] = *std::move(tokens);
  return absl::OkStatus();
}

absl::Status Authenticator::Load() {
  absl::Status all;
  for (const Scope scope : kScopes) {
    const absl::Status status = Load(scope);
    if (status.ok()) continue;
    all = all.ok() ? status : absl::Status(all.code(), absl::StrCat(all.message(), "; ", status.message()));
  }
  return all;
}

size_t Authenticator::num_tokens(Scope scope) const {
  MutexLock lock(&mutex_);
  return tokens_[IndexOf(scope)].size();
}

std::optional<Scope> Authenticator::WantedFile(Scope scope) const {
  if (has_file(scope)) return scope;
  if (scope == Scope::kSearch) return std::nullopt;
  if (scope == Scope::kWrite) return has_file(Scope::kAdmin) ? Scope::kAdmin : WantedFile(Scope::kSearch);
  return has_file(Scope::kWrite) ? Scope::kWrite : WantedFile(Scope::kSearch);
}

absl::Status Authenticator::Check(std::string_view authorization, Scope scope) const {
  const std::optional<Scope> wanted = WantedFile(scope);
  if (!wanted.has_value()) return absl::OkStatus();
  const std::string scheme = absl::AsciiStrToLower(std::string(authorization.substr(0, kScheme.size())));
  if (scheme != kScheme) {
    return absl::UnauthenticatedError("the call carries no bearer token (metadata or header `authorization`)");
  }
  const std::string_view token = authorization.substr(kScheme.size());
  std::optional<Scope> held;  // the last scope that the token is for
  {
    MutexLock lock(&mutex_);
    for (const Scope one : kScopes) {
      if (Holds(tokens_[IndexOf(one)], token)) held = one;
    }
  }
  if (!held.has_value()) return absl::UnauthenticatedError("the bearer token is not known");
  if (*held >= *wanted) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("the bearer token may ",
                                                  *held == Scope::kSearch ? "search" : "search and write documents",
                                                  "; this call is for those of ", files_[IndexOf(*wanted)].key));
}

}  // namespace maxsim::service
