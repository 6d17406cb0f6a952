// Checks bearer tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace maxsim::service {

// The access that a call needs: searching, writing documents of live collections, or changing what is served. A token
// for one scope is also valid for the scopes before it.
enum class Scope : uint8_t { kSearch, kWrite, kAdmin };
inline constexpr std::array<Scope, 3> kScopes = {Scope::kSearch, Scope::kWrite, Scope::kAdmin};

// Paths of the token files; "" for none.
struct TokenFiles {
  std::string search = {};
  std::string write = {};
  std::string admin = {};
};

// Knows which tokens may call what. Thread-safe.
//
// A call needs a token from its scope's file or from the file of a later scope. If writing has no file but
// administration has one, writing needs a token for administration, because writes change what other clients find. Any
// other scope without a file accepts the tokens of the scope before it. If searching has no file, everyone may search.
class Authenticator {
 public:
  // Call Load before Check.
  explicit Authenticator(TokenFiles files)
      : files_{{{"auth.tokens_file", std::move(files.search)},
                {"auth.write_tokens_file", std::move(files.write)},
                {"auth.admin_tokens_file", std::move(files.admin)}}} {}

  // Reads the files: one token per line; blank lines and lines that begin with # are ignored. If a file has an error,
  // its earlier tokens stay in force, and the other files are still read. Returns NOT_FOUND or PERMISSION_DENIED for a
  // file that cannot be read, INVALID_ARGUMENT for a file without a token or a token with spaces. If several files have
  // errors, returns the code of the first error with the messages of all.
  absl::Status Load();
  // Reads one scope's file, with the errors of Load(). OK if the scope has no file.
  absl::Status Load(Scope scope);

  // `authorization` is the header's value, "Bearer TOKEN", or "" if there is none. Returns UNAUTHENTICATED if the token
  // is missing or unknown; the message says which, but never what was expected. Returns PERMISSION_DENIED if the token
  // is valid for earlier scopes only. Takes the same time for all wrong tokens of the same length.
  absl::Status Check(std::string_view authorization, Scope scope) const;

  // Returns the number of tokens of a scope's file that are in force.
  size_t num_tokens(Scope scope) const;

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
  // Returns the first scope whose tokens are valid for calls of `scope`; tokens of later scopes are valid, too.
  // Returns nullopt if calls of `scope` need no token.
  std::optional<Scope> WantedFile(Scope scope) const;

  const std::array<TokenFile, kScopes.size()> files_;
  mutable Mutex mutex_;
  std::array<std::vector<std::string>, kScopes.size()> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
