#include "base/token_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/text.h"

namespace maxsim {

absl::StatusOr<std::vector<std::string>> ReadTokenFile(std::string_view key, const std::string& path) {
  if (const std::string_view kind = OtherKind(path); !kind.empty()) {
    return Invalid(key, ": cannot read ", path, ": it is ", kind, ", not a file");
  }
  errno = 0;
  std::ifstream file(path);
  const auto unreadable = [&] {
    const std::string message = Cat(key, ": cannot read ", path, ": ", std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(message) : absl::NotFoundError(message);
  };
  if (!file) return unreadable();
  std::vector<std::string> tokens;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::string token(absl::StripAsciiWhitespace(line));
    if (token.empty() || token.front() == '#') continue;
    // A header may only have visible ASCII characters.
    if (std::any_of(token.begin(), token.end(), [](char c) { return c < 0x21 || c > 0x7e; })) {
      return Invalid(key, ": ", path, ":", number, ": a token holds only visible ASCII, and no spaces");
    }
    tokens.push_back(std::move(token));
  }
  if (file.bad()) return unreadable();  // for example, if it is a folder
  if (tokens.empty()) return Invalid(key, ": ", path, " holds no token");
  return tokens;
}

}  // namespace maxsim
