// Fuzzes a file of bearer tokens. The server must accept each token in the file and no other, and the command-line
// tools must send the first one. The input is the file and, after the first NUL byte, the value of an Authorization
// header.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "server/service/call/auth.h"
#include "tests/fuzz/target.h"
#include "tools/command_line/token_file.h"

namespace maxsim::fuzz {
namespace {

// Returns the tokens that a valid file lists.
std::vector<std::string> ListedTokens(std::string_view text) {
  std::vector<std::string> tokens;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const absl::string_view token = absl::StripAsciiWhitespace(line);
    if (!token.empty() && token.front() != '#') tokens.emplace_back(token);
  }
  return tokens;
}

void FuzzTokensFile(std::string_view input) {
  const std::string_view text = input.substr(0, input.find('\0'));
  const std::string_view header = input.substr(std::min(text.size() + 1, input.size()));
  const MemoryFile memory(text);
  service::Authenticator authenticator({.search = memory.path()});
  const absl::Status loaded = authenticator.Load();
  if (!loaded.ok()) {
    RequireRefusal(loaded);
    return Require(!authenticator.Check("Bearer x", service::Scope::kSearch).ok(), "without tokens nobody may search");
  }
  const std::vector<std::string> tokens = ListedTokens(text);
  Require(authenticator.num_tokens(service::Scope::kSearch) == tokens.size(), "every line is a token");
  for (const std::string& token : tokens) {
    Require(authenticator.Check("Bearer " + token, service::Scope::kSearch).ok(), "a listed token may search");
    Require(authenticator.Check("bearer " + token, service::Scope::kAdmin).ok(), "without an admin file it may do all");
  }
  const std::set<std::string> known(tokens.begin(), tokens.end());
  constexpr size_t kScheme = 7;  // length of "Bearer "
  if (authenticator.Check(header, service::Scope::kSearch).ok()) {
    Require(header.size() > kScheme && known.count(std::string(header.substr(kScheme))) == 1,
            "only a listed token may search");
  }
  const absl::StatusOr<std::string> sent = command_line::ReadTokenFile(memory.path());
  Require(sent.ok() && *sent == tokens.front(), "a command line sends the first token of the server's file");
}

const Registration kTokensFileTarget("tokens_file", &FuzzTokensFile);

}  // namespace
}  // namespace maxsim::fuzz
