// Checks bearer tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace maxsim::service {

// What a call is for: asking, or changing what is served.
enum class Scope { kSearch, kAdmin };

// Knows which tokens may call what. Thread-safe.
class Authenticator {
 public:
  // The tokens of `tokens_file` may search, those of `admin_tokens_file` may do everything. Without the former (an
  // empty path) everyone may search; without the latter, who may search may do everything. Call Load before Check.
  explicit Authenticator(std::string tokens_file, std::string admin_tokens_file = "")
      : search_file_{"auth.tokens_file", std::move(tokens_file)},
        admin_file_{"auth.admin_tokens_file", std::move(admin_tokens_file)} {}

  // Reads the files: one token a line; blank lines and lines that begin with # do not count. A file with an error keeps
  // the tokens that it had, whatever the other one has. NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for a file
  // without a token or a token with spaces; with two wrong files the code is the first one's, and the message both's.
  absl::Status Load();
  // Reads one scope's file, with the errors of Load(). OK where the scope has no file.
  absl::Status Load(Scope scope);

  // `authorization` is the header's value, "Bearer TOKEN", or "" without one. UNAUTHENTICATED says whether there was no
  // token or an unknown one, never what was expected; PERMISSION_DENIED for a token that may search, and no more, where
  // kAdmin is asked for. Takes the same time for every wrong token of a length.
  absl::Status Check(std::string_view authorization, Scope scope) const;

  // Returns the number of tokens of a scope's file that are in force.
  size_t num_tokens(Scope scope) const;

  // Returns whether there is a file for the scope.
  bool has_file(Scope scope) const { return !file_of(scope).path.empty(); }

  // Returns false where everyone may call what the scope is for.
  bool enabled(Scope scope) const {
    return !search_file_.path.empty() || (scope == Scope::kAdmin && !admin_file_.path.empty());
  }

 private:
  struct TokenFile {
    const char* const key;   // of the configuration
    const std::string path;  // "": none
  };

  const TokenFile& file_of(Scope scope) const { return scope == Scope::kAdmin ? admin_file_ : search_file_; }

  const TokenFile search_file_;
  const TokenFile admin_file_;
  mutable Mutex mutex_;
  std::vector<std::string> search_tokens_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> admin_tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
