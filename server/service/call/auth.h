// Checks bearer tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/service/call/token_index.h"
#include "server/service/tenants/caller.h"
#include "server/service/tenants/tenant_registry.h"

namespace maxsim::service {

// The kinds of access that a call may need: to search, to write documents of live collections, or to administer
// collections. A token for one scope is also valid for the scopes before it.
enum class Scope : uint8_t { kSearch, kWrite, kAdmin };
inline constexpr std::array<Scope, kNumScopes> kScopes = {Scope::kSearch, Scope::kWrite, Scope::kAdmin};

// Paths of the token files; "" for none.
struct TokenFiles {
  std::string search = {};
  std::string write = {};
  std::string admin = {};
};

// Decides by the token of a call whether the call is allowed. Thread-safe.
//
// A call needs a token from its scope's file or from the file of a later scope. If writing has no file but
// administration has one, writing needs a token for administration, because writes change what other clients find. Any
// other scope without a file accepts the tokens of the scope before it. If searching has no file, no token is needed to
// search.
//
// The files for searching and writing may give tokens to tenants: clients that may use only some collections or
// documents. No tenant may administer.
class Authenticator {
 public:
  // Call Load before Check.
  explicit Authenticator(TokenFiles files)
      : files_{{{"auth.tokens_file", std::move(files.search)},
                {"auth.write_tokens_file", std::move(files.write)},
                {"auth.admin_tokens_file", std::move(files.admin)}}} {}

  // Reads the files: one token per line, which the settings of a tenant may follow. Ignores blank lines and lines that
  // begin with #. If a file has an error or contradicts an earlier file, its earlier tokens stay in force, and the
  // other files are still read. Returns NOT_FOUND or PERMISSION_DENIED for a file that cannot be read, INVALID_ARGUMENT
  // for a file without a token, a token with spaces or wrong settings. If several files have errors, returns the code
  // of the first error with the messages of all.
  absl::Status Load();
  // Does the same as Load, but returns the outcome of each file, by scope.
  std::array<absl::Status, kNumScopes> LoadEach();

  // Returns the caller of a call that tenants may make. The port must then pass the caller to the tenant gate.
  // `authorization` is the header's value, "Bearer TOKEN", or "" if there is none. Returns UNAUTHENTICATED if the token
  // is missing or unknown (the message says which of the two). Returns PERMISSION_DENIED if the token is valid for
  // earlier scopes only, and to tenants for kAdmin. Takes the same time for all wrong tokens of the same length.
  absl::StatusOr<Caller> Identify(std::string_view authorization, Scope scope) const;

  // Checks a call that tenants may not make. Has the errors of Identify, and returns PERMISSION_DENIED to tenants.
  absl::Status Check(std::string_view authorization, Scope scope) const;

  // Return the number of tokens in force from a scope's file: of all of them, and of those that belong to tenants.
  size_t num_tokens(Scope scope) const { return num_entries(scope, false); }
  size_t num_tenant_tokens(Scope scope) const { return num_entries(scope, true); }
  // Returns whether a token in force is a tenant's.
  bool has_tenants() const { return index()->has_tenants(); }

  // Returns whether there is a file for the scope.
  bool has_file(Scope scope) const { return !files_[IndexOf(scope)].path.empty(); }

  // Returns false if everyone may make calls of the scope.
  bool enabled(Scope scope) const { return WantedFile(scope).has_value(); }

 private:
  struct TokenFile {
    const char* const key;   // of the configuration
    const std::string path;  // "": none
  };

  static size_t IndexOf(Scope scope) { return static_cast<size_t>(scope); }
  // Returns the first scope whose tokens are valid for calls of `scope`; tokens of later scopes are also valid. Returns
  // nullopt if calls of `scope` need no token.
  std::optional<Scope> WantedFile(Scope scope) const;
  absl::StatusOr<TokenEntries> ReadFile(Scope scope);
  size_t num_entries(Scope scope, bool of_tenants) const;
  std::shared_ptr<const TokenIndex> index() const;

  const std::array<TokenFile, kNumScopes> files_;
  TenantRegistry registry_;
  Mutex load_mutex_;  // held while files are read
  mutable Mutex mutex_;
  std::shared_ptr<const TokenIndex> index_ ABSL_GUARDED_BY(mutex_) = std::make_shared<const TokenIndex>();
};

}  // namespace maxsim::service
