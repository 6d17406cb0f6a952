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

namespace {

// A header may only have visible ASCII characters.
bool IsToken(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x21 && c <= 0x7e; });
}

}  // namespace

TokenLine SplitTokenLine(std::string line, int number) {
  const size_t space = line.find_first_of(" \t");
  const size_t settings = line.find_first_not_of(" \t", space);
  if (settings == std::string::npos || line[settings] != '{') return {.token = std::move(line), .number = number};
  return {.token = line.substr(0, space), .settings = line.substr(settings), .number = number};
}

absl::StatusOr<std::vector<TokenLine>> ReadTokenLines(std::string_view key, const std::string& path) {
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
  std::vector<TokenLine> tokens;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    std::string line(absl::StripAsciiWhitespace(text));
    if (line.empty() || line.front() == '#') continue;
    TokenLine one = SplitTokenLine(std::move(line), number);
    if (!IsToken(one.token)) {
      return Invalid(key, ": ", path, ":", number, ": a token holds only visible ASCII, and no spaces");
    }
    tokens.push_back(std::move(one));
  }
  if (file.bad()) return unreadable();  // for example, if it is a folder
  if (tokens.empty()) return Invalid(key, ": ", path, " holds no token");
  return tokens;
}

absl::StatusOr<std::vector<std::string>> ReadTokenFile(std::string_view key, const std::string& path) {
  absl::StatusOr<std::vector<TokenLine>> lines = ReadTokenLines(key, path);
  if (!lines.ok()) return lines.status();
  std::vector<std::string> tokens;
  for (TokenLine& line : *lines) {
    if (!line.settings.empty()) {
      return Invalid(key, ": ", path, ":", line.number, ": a token of this file has no settings");
    }
    tokens.push_back(std::move(line.token));
  }
  return tokens;
}

}  // namespace maxsim
