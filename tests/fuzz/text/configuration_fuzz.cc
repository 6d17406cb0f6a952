// Fuzzes a configuration from file, environment and flags. An accepted configuration, printed as a file, must load as
// the same configuration. Input lines that begin with -- and a letter are flags, lines that begin with MAXSIM_ are
// environment variables, and all other lines are the file.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "server/config/load.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

struct Sources {
  std::string file;
  std::map<std::string, std::string> variables;
  std::vector<std::string> flags;
};

Sources Split(std::string_view input) {
  Sources sources;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(input.data(), input.size()), '\n')) {
    const size_t equals = line.find('=');
    if (absl::StartsWith(line, "--") && line.size() > 2 && absl::ascii_isalpha(static_cast<unsigned char>(line[2]))) {
      // Ignores flags that name a configuration file, because the target must not open other files.
      if (!absl::StartsWith(line, "--config")) sources.flags.emplace_back(line);
    } else if (absl::StartsWith(line, "MAXSIM_") && equals != absl::string_view::npos) {
      const std::string value(line.substr(equals + 1));
      if (line.substr(0, equals) != "MAXSIM_CONFIG") sources.variables[std::string(line.substr(0, equals))] = value;
    } else {
      absl::StrAppend(&sources.file, line, "\n");
    }
  }
  return sources;
}

absl::StatusOr<config::Loaded> LoadFrom(const Sources& sources) {
  const MemoryFile file(sources.file);
  std::vector<std::string> args = {absl::StrCat("--config=", file.path())};
  args.insert(args.end(), sources.flags.begin(), sources.flags.end());
  std::vector<std::string> names;
  for (const auto& [name, value] : sources.variables) names.push_back(name);
  const auto find = [&sources](const char* name) -> const char* {
    const auto variable = sources.variables.find(name);
    return variable == sources.variables.end() ? nullptr : variable->second.c_str();
  };
  return config::Load(args, find, names);
}

// Returns the configuration as YAML, without the comments that say where each value comes from.
std::string PlainYaml(config::Loaded loaded) {
  loaded.origins.clear();
  return config::ToYaml(loaded);
}

void FuzzConfiguration(std::string_view input) {
  const absl::StatusOr<config::Loaded> loaded = LoadFrom(Split(input));
  if (!loaded.ok()) return RequireRefusal(loaded.status());
  if (loaded->action == config::Action::kHelp || loaded->action == config::Action::kVersion) return;
  Require(config::Validate(loaded->config).ok(), "what is loaded is valid");
  const std::string plain = PlainYaml(*loaded);
  for (const std::string& text : {plain, config::ToYaml(*loaded)}) {
    const absl::StatusOr<config::Loaded> again = LoadFrom({.file = text, .variables = {}, .flags = {}});
    Require(again.ok(), absl::StrCat("what is printed loads: ", again.status().ToString()));
    Require(PlainYaml(*again) == plain, "what is printed loads to the same");
  }
}

const Registration kConfigurationTarget("configuration", &FuzzConfiguration);

}  // namespace
}  // namespace maxsim::fuzz
