// Bearer tokens.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace maxsim::rpc {

// Knows which tokens may call. Thread-safe.
class Authenticator {
 public:
  // An empty path lets everyone in. Call Load before Check.
  explicit Authenticator(std::string tokens_file) : tokens_file_(std::move(tokens_file)) {}

  // Reads the file: one token a line; blank lines and lines that begin with # do not count. On an error the tokens stay
  // as they were. NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for a file without a token or a token with spaces.
  absl::Status Load();

  // `authorization` is the header's value, "Bearer TOKEN", or "" without one. UNAUTHENTICATED says which of the two was
  // wrong, never what was expected. Takes the same time for every wrong token of a length.
  absl::Status Check(std::string_view authorization) const;

  bool enabled() const { return !tokens_file_.empty(); }

 private:
  const std::string tokens_file_;
  mutable std::mutex mutex_;
  std::vector<std::string> tokens_;
};

}  // namespace maxsim::rpc
