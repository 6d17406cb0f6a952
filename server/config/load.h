// Fills a Config from a YAML file, the environment and the command line. Later sources win: default, file, environment,
// flag. Nothing is created or opened but the file itself.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace maxsim::config {

// What the command line asks for beside values.
enum class Action { kServe, kHelp, kVersion, kPrintConfig, kCheckConfig };

struct Loaded {
  Action action = Action::kServe;
  Config config;
  // Gives for a key, or for "collections.NAME", the "file:line", variable or flag that its value comes from. A key
  // without an entry has its default.
  std::map<std::string, std::string> origins;
  std::vector<std::string> warnings;  // such as a variable that is nearly a key's
};

// Looks a variable up: nullptr when it is not set. std::getenv, or a test's table.
using Environment = std::function<const char*(const char* name)>;

// `args` without the program's name; `names` are all variables that are set (for warnings about misspelt ones).
// INVALID_ARGUMENT naming where the value stands (path:line, variable or flag), the key, the value and the limit, or a
// folder in the file's place; NOT_FOUND or PERMISSION_DENIED for a file that cannot be read.
absl::StatusOr<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                            const std::vector<std::string>& names = {});

// Returns the names of the process' environment variables.
std::vector<std::string> EnvironmentNames();

// Does only the file's part of Load; `origin` opens error messages and stands in `origins`. Exposed for tests.
absl::Status ApplyYaml(const std::string& text, const std::string& origin, Loaded& loaded);

// What --help shows: every key with its flag, variable, type, range and default.
std::string HelpText();

// Returns the configuration as a YAML file that Load reads back; values that are not the default carry their origin as
// a comment.
std::string ToYaml(const Loaded& loaded);

}  // namespace maxsim::config
