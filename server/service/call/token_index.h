// The tokens of all files, in a form in which one is found fast.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "server/service/tenants/tenant.h"

namespace maxsim::service {

// The number of scopes (auth.h). Each scope has a file.
inline constexpr size_t kNumScopes = 3;

// A line of a token file.
struct TokenEntry {
  std::string token;
  std::string where;                          // "auth.tokens_file: /etc/maxsim/tokens:7", for messages
  std::shared_ptr<const Tenant> tenant = {};  // null if the token is not a tenant's
};
using TokenEntries = std::shared_ptr<const std::vector<TokenEntry>>;  // of one file; null if there is none

// Returns INVALID_ARGUMENT, naming both lines, if two lines of the files contradict each other. They do if both have
// the same token and one of them gives it to a tenant, or if both have the same tenant with different quotas. Skips
// files that are null.
absl::Status CheckTokensTogether(const std::array<TokenEntries, kNumScopes>& files);

// Immutable and thread-safe.
class TokenIndex {
 public:
  TokenIndex() : TokenIndex(std::array<TokenEntries, kNumScopes>{}) {}
  explicit TokenIndex(std::array<TokenEntries, kNumScopes> files);

  const std::array<TokenEntries, kNumScopes>& files() const { return files_; }

  bool has_tenants() const { return has_tenants_; }

  // A token that was found. If several lines have it, `scope` is that of the last of their files. If any of them gives
  // it to a tenant, it is a tenant's.
  struct Found {
    size_t scope = 0;
    std::shared_ptr<const Tenant> tenant;
  };
  // Returns null for an unknown token. Takes the same time for all unknown tokens of the same length, unless their
  // hashes collide with that of a known token. The hash has a random seed, so clients cannot choose colliding tokens.
  const Found* Find(std::string_view token) const;

 private:
  struct Known {
    std::string_view token;  // of an entry of files_
    Found found;
  };

  const std::array<TokenEntries, kNumScopes> files_;
  std::unordered_map<uint64_t, std::vector<Known>> by_hash_;
  bool has_tenants_ = false;
};

}  // namespace maxsim::service
