// Fuzzes a file of bearer tokens, with and without tenants. The server must accept each token of the file and no other,
// and must never let a tenant administer. The command-line tools must send the first token. The input is the file, a
// NUL byte, and the value of an Authorization header.
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

struct ListedToken {
  std::string token;
  bool is_tenants = false;
};

// Returns the tokens that a valid file lists.
std::vector<ListedToken> ListedTokens(std::string_view text) {
  std::vector<ListedToken> tokens;
  for (const absl::string_view untrimmed : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(untrimmed);
    if (line.empty() || line.front() == '#') continue;
    // A token has no space, so a line with one has settings.
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    tokens.push_back({std::string(line.substr(0, end)), end < line.size()});
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
  const std::vector<ListedToken> tokens = ListedTokens(text);
  Require(authenticator.num_tokens(service::Scope::kSearch) == tokens.size(), "every line is a token");
  std::set<std::string> known;
  for (const auto& [token, is_tenants] : tokens) {
    known.insert(token);
    const auto caller = authenticator.Identify("Bearer " + token, service::Scope::kSearch);
    Require(caller.ok() && caller->is_known(), "a listed token may search");
    Require((caller->tenant() != nullptr) == is_tenants, "settings make a token a tenant's");
    Require(authenticator.Check("Bearer " + token, service::Scope::kSearch).ok() == !is_tenants,
            "a tenant may only make calls that admit tenants");
    Require(authenticator.Check("bearer " + token, service::Scope::kAdmin).ok() == !is_tenants,
            "without an admin file a token may do all, unless it is a tenant's");
  }
  constexpr size_t kScheme = 7;  // length of "Bearer "
  if (authenticator.Identify(header, service::Scope::kSearch).ok()) {
    Require(header.size() > kScheme && known.count(std::string(header.substr(kScheme))) == 1,
            "only a listed token may search");
  }
  const absl::StatusOr<std::string> sent = command_line::ReadTokenFile(memory.path());
  Require(sent.ok() && *sent == tokens.front().token, "a command line sends the first token of the server's file");
}

const Registration kTokensFileTarget("tokens_file", &FuzzTokensFile);

}  // namespace
}  // namespace maxsim::fuzz
