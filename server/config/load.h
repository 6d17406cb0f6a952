// Fills a Config from a YAML file, the environment and the command line. Later sources win: default, file, environment,
// flag. Opens only the configuration file, and creates nothing.
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

// The action of the program. Flags such as --help choose it; without such a flag it serves.
enum class Action { kServe, kHelp, kVersion, kPrintConfig, kCheckConfig };

struct Loaded {
  Action action = Action::kServe;
  Config config;
  // Maps a key, or "collections.NAME", to the "file:line", variable or flag that its value comes from. A key without an
  // entry has its default.
  std::map<std::string, std::string> origins;
  std::vector<std::string> warnings;  // for example about a variable whose name is close to that of a key
};

// Looks up a variable; returns null if it is not set. This is std::getenv, or a test's table.
using Environment = std::function<const char*(const char* name)>;

// `args` does not include the program's name; `names` are all variables that are set (to warn about misspelt ones).
// Returns INVALID_ARGUMENT with the source (path:line, variable or flag), the key, the value and the limit, or if the
// path is a folder; NOT_FOUND or PERMISSION_DENIED if the file cannot be read.
absl::StatusOr<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                            const std::vector<std::string>& names = {});

// Returns the names of the process' environment variables.
std::vector<std::string> EnvironmentNames();

// Applies only the configuration file (a part of Load). `origin` begins error messages and is stored in `origins`.
// Exposed for tests.
absl::Status ApplyYaml(const std::string& text, const std::string& origin, Loaded& loaded);

// Returns the text of --help: every key with its flag, variable, type, range and default.
std::string HelpText();

// Returns the configuration as a YAML file that Load can read. A comment shows the origin of each value that is not the
// default.
std::string ToYaml(const Loaded& loaded);

}  // namespace maxsim::config
