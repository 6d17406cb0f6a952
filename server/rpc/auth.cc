#include "server/rpc/auth.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace maxsim::rpc {
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

}  // namespace

absl::Status Authenticator::Load() {
  if (!enabled()) return absl::OkStatus();
  errno = 0;
  std::ifstream file(tokens_file_);
  if (!file) {
    const std::string message =
        absl::StrCat("auth.tokens_file: cannot read ", tokens_file_, ": ", std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(message) : absl::NotFoundError(message);
  }
  std::vector<std::string> tokens;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::string token(absl::StripAsciiWhitespace(line));
    if (token.empty() || token.front() == '#') continue;
    if (token.find_first_of(" \t") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("auth.tokens_file: ", tokens_file_, ":", number, ": a token holds no spaces"));
    }
    tokens.push_back(std::move(token));
  }
  if (tokens.empty())
    return absl::InvalidArgumentError(absl::StrCat("auth.tokens_file: ", tokens_file_, " holds no token"));
  std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
  return absl::OkStatus();
}

absl::Status Authenticator::Check(std::string_view authorization) const {
  if (!enabled()) return absl::OkStatus();
  const std::string scheme = absl::AsciiStrToLower(std::string(authorization.substr(0, kScheme.size())));
  if (scheme != kScheme) {
    return absl::UnauthenticatedError("the call carries no bearer token (metadata or header `authorization`)");
  }
  const std::string_view token = authorization.substr(kScheme.size());
  bool known = false;
  std::lock_guard lock(mutex_);
  for (const std::string& candidate : tokens_) known |= EqualInConstantTime(candidate, token);
  return known ? absl::OkStatus() : absl::UnauthenticatedError("the bearer token is not known");
}

}  // namespace maxsim::rpc
