#include "server/service/call/auth.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/token_file.h"

namespace maxsim::service {
namespace {

constexpr std::string_view kScheme = "bearer ";

}  // namespace

absl::StatusOr<TokenEntries> Authenticator::ReadFile(Scope scope) {
  const TokenFile& file = files_[IndexOf(scope)];
  absl::StatusOr<std::vector<TokenLine>> lines = ReadTokenLines(file.key, file.path);
  if (!lines.ok()) return lines.status();
  std::vector<TokenEntry> entries;
  entries.reserve(lines->size());
  for (TokenLine& line : *lines) {
    std::string where = Cat(file.key, ": ", file.path, ":", line.number);
    std::shared_ptr<const Tenant> tenant;
    if (!line.settings.empty()) {
      absl::StatusOr<TenantSettings> settings = ParseTenant(line.settings);
      if (!settings.ok()) return Prefix(Cat(where, ": "), settings.status());
      if (scope == Scope::kAdmin) return maxsim::Invalid(where, ": tenant: a tenant cannot administer");
      if (!has_file(Scope::kSearch)) {
        return maxsim::Invalid(where, ": tenant: needs auth.tokens_file, without which everyone may search");
      }
      std::shared_ptr<TenantUsage> usage = registry_.UsageOf(settings->name);
      tenant = std::make_shared<const Tenant>(*std::move(settings), std::move(usage));
    }
    entries.push_back({std::move(line.token), std::move(where), std::move(tenant)});
  }
  return std::make_shared<const std::vector<TokenEntry>>(std::move(entries));
}

std::array<absl::Status, kNumScopes> Authenticator::LoadEach() {
  std::array<absl::Status, kNumScopes> outcomes;
  MutexLock loading(&load_mutex_);
  const std::array<TokenEntries, kNumScopes> in_force = index()->files();
  std::array<TokenEntries, kNumScopes> read;
  for (const Scope scope : kScopes) {
    if (!has_file(scope)) continue;
    absl::StatusOr<TokenEntries> entries = ReadFile(scope);
    if (entries.ok()) {
      read[IndexOf(scope)] = *std::move(entries);
    } else {
      outcomes[IndexOf(scope)] = entries.status();
    }
  }
  // Accept the files one after another, each only if it does not contradict the files that were accepted before it. A
  // file that is not accepted keeps its earlier tokens. No file is compared with those: it may be right and they may be
  // wrong.
  std::array<TokenEntries, kNumScopes> accepted;
  std::array<TokenEntries, kNumScopes> taken = in_force;
  for (size_t idx = 0; idx < kNumScopes; ++idx) {
    if (read[idx] == nullptr) continue;
    accepted[idx] = read[idx];
    if (absl::Status status = CheckTokensTogether(accepted); !status.ok()) {
      outcomes[idx] = std::move(status);
      accepted[idx] = nullptr;
      continue;
    }
    taken[idx] = read[idx];
  }
  auto made = std::make_shared<const TokenIndex>(std::move(taken));
  MutexLock lock(&mutex_);
  index_ = std::move(made);
  return outcomes;
}

absl::Status Authenticator::Load() {
  absl::Status all;
  for (const absl::Status& status : LoadEach()) {
    if (status.ok()) continue;
    all = all.ok() ? status : absl::Status(all.code(), absl::StrCat(all.message(), "; ", status.message()));
  }
  return all;
}

std::shared_ptr<const TokenIndex> Authenticator::index() const {
  MutexLock lock(&mutex_);
  return index_;
}

size_t Authenticator::num_entries(Scope scope, bool of_tenants) const {
  const TokenEntries file = index()->files()[IndexOf(scope)];
  if (file == nullptr) return 0;
  if (!of_tenants) return file->size();
  return static_cast<size_t>(
      std::count_if(file->begin(), file->end(), [](const TokenEntry& entry) { return entry.tenant != nullptr; }));
}

std::optional<Scope> Authenticator::WantedFile(Scope scope) const {
  if (has_file(scope)) return scope;
  if (scope == Scope::kSearch) return std::nullopt;
  if (scope == Scope::kWrite) return has_file(Scope::kAdmin) ? Scope::kAdmin : WantedFile(Scope::kSearch);
  return has_file(Scope::kWrite) ? Scope::kWrite : WantedFile(Scope::kSearch);
}

absl::StatusOr<Caller> Authenticator::Identify(std::string_view authorization, Scope scope) const {
  const std::optional<Scope> wanted = WantedFile(scope);
  if (!wanted.has_value()) return Caller::Unrestricted();  // everyone may make such calls
  const std::string scheme = absl::AsciiStrToLower(std::string(authorization.substr(0, kScheme.size())));
  if (scheme != kScheme) {
    return absl::UnauthenticatedError("the call carries no bearer token (metadata or header `authorization`)");
  }
  const std::shared_ptr<const TokenIndex> tokens = index();
  const TokenIndex::Found* const found = tokens->Find(authorization.substr(kScheme.size()));
  if (found == nullptr) return absl::UnauthenticatedError("the bearer token is not known");
  if (scope == Scope::kAdmin && found->tenant != nullptr) {
    return absl::PermissionDeniedError("the bearer token is of a tenant, which cannot administer");
  }
  if (found->scope >= IndexOf(*wanted)) return Caller(found->tenant);
  return absl::PermissionDeniedError(absl::StrCat(
      "the bearer token may ", found->scope == IndexOf(Scope::kSearch) ? "search" : "search and write documents",
      "; this call needs a token of ", files_[IndexOf(*wanted)].key));
}

absl::Status Authenticator::Check(std::string_view authorization, Scope scope) const {
  const absl::StatusOr<Caller> caller = Identify(authorization, scope);
  if (!caller.ok()) return caller.status();
  if (caller->tenant() == nullptr) return absl::OkStatus();
  return absl::PermissionDeniedError("the bearer token is of a tenant, but this call is not for tenants");
}

}  // namespace maxsim::service
