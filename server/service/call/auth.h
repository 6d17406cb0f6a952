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

// What a call is for: asking, writing documents of live collections, or changing what is served. A token that is good
// for one of them is good for those before it.
enum class Scope : uint8_t { kSearch, kWrite, kAdmin };
inline constexpr std::array<Scope, 3> kScopes = {Scope::kSearch, Scope::kWrite, Scope::kAdmin};

// Names the files of tokens; "": none.
struct TokenFiles {
  std::string search = {};
  std::string write = {};
  std::string admin = {};
};

// Knows which tokens may call what. Thread-safe.
//
// A call wants a token of its scope's file, or of the file of a later scope. Without a file of its own, writing is for
// those who may administer where there is a file for them: it changes what others find. Otherwise what has no file is
// for whom the scope before lets in. Without a file for searching everyone may search.
class Authenticator {
 public:
  // Call Load before Check.
  explicit Authenticator(TokenFiles files)
      : files_{{{"auth.tokens_file", std::move(files.search)},
                {"auth.write_tokens_file", std::move(files.write)},
                {"auth.admin_tokens_file", std::move(files.admin)}}} {}

  // Reads the files: one token a line; blank lines and lines that begin with # do not count. A file with an error keeps
  // the tokens that it had, whatever the others have. NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for a file
  // without a token or a token with spaces; with several wrong files the code is the first one's, and the message all
  // theirs.
  absl::Status Load();
  // Reads one scope's file, with the errors of Load(). OK where the scope has no file.
  absl::Status Load(Scope scope);

  // `authorization` is the header's value, "Bearer TOKEN", or "" without one. UNAUTHENTICATED says whether there was no
  // token or an unknown one, never what was expected; PERMISSION_DENIED for a token that is good for less than what is
  // asked for. Takes the same time for every wrong token of a length.
  absl::Status Check(std::string_view authorization, Scope scope) const;

  // Returns the number of tokens of a scope's file that are in force.
  size_t num_tokens(Scope scope) const;

  // Returns whether there is a file for the scope.
  bool has_file(Scope scope) const { return !files_[IndexOf(scope)].path.empty(); }

  // Returns false where everyone may call what the scope is for.
  bool enabled(Scope scope) const { return WantedFile(scope).has_value(); }

 private:
  struct TokenFile {
    const char* const key;   // of the configuration
    const std::string path;  // "": none
  };

  static size_t IndexOf(Scope scope) { return static_cast<size_t>(scope); }
  // Returns the scope whose file, or a later one, must hold the token of a call; nullopt where none need.
  std::optional<Scope> WantedFile(Scope scope) const;

  const std::array<TokenFile, kScopes.size()> files_;
  mutable Mutex mutex_;
  std::array<std::vector<std::string>, kScopes.size()> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
