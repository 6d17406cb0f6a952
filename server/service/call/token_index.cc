#include "server/service/call/token_index.h"

#include <map>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "base/text.h"

namespace maxsim::service {
namespace {

uint64_t HashOf(std::string_view token) {
  return absl::Hash<absl::string_view>()(absl::string_view(token.data(), token.size()));
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

absl::Status CheckTokensTogether(const std::array<TokenEntries, kNumScopes>& files) {
  std::map<std::string_view, const TokenEntry*> by_token;
  std::map<std::string_view, const TokenEntry*> by_tenant;
  for (const TokenEntries& file : files) {
    if (file == nullptr) continue;
    for (const TokenEntry& entry : *file) {
      const auto [same_token, is_new] = by_token.emplace(entry.token, &entry);
      const TokenEntry& other = *same_token->second;
      if (!is_new && (entry.tenant != nullptr || other.tenant != nullptr)) {
        return maxsim::Invalid(entry.where, ": has the same token as ", other.where,
                               ", but one of them is of a tenant");
      }
      if (entry.tenant == nullptr) continue;
      const TokenEntry& same_tenant = *by_tenant.emplace(entry.tenant->name(), &entry).first->second;
      if (same_tenant.tenant->quotas() == entry.tenant->quotas()) continue;
      return maxsim::Invalid(entry.where, ": tenant ", Quote(entry.tenant->name()), " has other quotas than in ",
                             same_tenant.where);
    }
  }
  return absl::OkStatus();
}

TokenIndex::TokenIndex(std::array<TokenEntries, kNumScopes> files) : files_(std::move(files)) {
  for (size_t scope = 0; scope < kNumScopes; ++scope) {
    if (files_[scope] == nullptr) continue;
    for (const TokenEntry& entry : *files_[scope]) {
      has_tenants_ = has_tenants_ || entry.tenant != nullptr;
      std::vector<Known>& same_hash = by_hash_[HashOf(entry.token)];
      Known* known = nullptr;
      for (Known& one : same_hash) {
        if (one.token == entry.token) known = &one;
      }
      if (known == nullptr) {
        same_hash.push_back({entry.token, {scope, entry.tenant}});
        continue;
      }
      known->found.scope = scope;
      if (known->found.tenant == nullptr) known->found.tenant = entry.tenant;
    }
  }
}

const TokenIndex::Found* TokenIndex::Find(std::string_view token) const {
  const auto same_hash = by_hash_.find(HashOf(token));
  if (same_hash == by_hash_.end()) return nullptr;
  const Found* found = nullptr;
  for (const Known& known : same_hash->second) {
    if (EqualInConstantTime(known.token, token)) found = &known.found;
  }
  return found;
}

}  // namespace maxsim::service
