#include "tools/command_line/token_file.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/token_file.h"
#include "collection/evaluation/judgements.h"

namespace maxsim::command_line {

absl::StatusOr<std::string> ReadTokenFile(const std::string& path, const std::string& flag) {
  const absl::StatusOr<std::string> text = evaluation::ReadWholeFile(path);
  if (!text.ok()) return absl::Status(text.status().code(), absl::StrCat(flag, ": ", text.status().message()));
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (stripped.empty() || stripped.front() == '#') continue;
    // In a server's file, the settings of a tenant may follow.
    const std::string token = SplitTokenLine(std::string(stripped), /*number=*/0).token;
    if (!std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": the token in '", path, "' holds a space or a byte beyond ASCII"));
    }
    return token;
  }
  return absl::InvalidArgumentError(absl::StrCat(flag, ": '", path, "' holds no token"));
}

}  // namespace maxsim::command_line
