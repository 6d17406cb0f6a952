// Fills a Config from a YAML file, the environment and the command line. A later source of this order overrides an
// earlier one: default, file, environment, flag. Opens only the configuration file, and creates nothing.
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

// The program's action, which flags such as --help choose. The default is to serve.
enum class Action { kServe, kHelp, kVersion, kPrintConfig, kCheckConfig };

struct Loaded {
  Action action = Action::kServe;
  Config config;
  // Maps a key, or "collections.NAME", to the place that its value comes from: "file:line", a variable or a flag. A key
  // without an entry has its default.
  std::map<std::string, std::string> origins;
  std::vector<std::string> warnings;  // for example about a variable whose name is close to that of a key
};

// Returns an environment variable's value, or null if it is not set.
using Environment = std::function<const char*(const char* name)>;

// Returns the configuration. `args` does not include the program's name; `names` are all variables that are set (to
// warn about misspelt ones). Returns INVALID_ARGUMENT for a wrong value, with its source (path:line, variable or flag),
// the key, the value and the limit, or if the file's path is a folder; NOT_FOUND or PERMISSION_DENIED if the file
// cannot be read.
absl::StatusOr<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                            const std::vector<std::string>& names = {});

// Returns the names of the process' environment variables.
std::vector<std::string> EnvironmentNames();

// Applies `text`, the contents of the configuration file (a part of Load). `origin` begins error messages and is stored
// in `origins`. Exposed for tests.
absl::Status ApplyYaml(const std::string& text, const std::string& origin, Loaded& loaded);

// Returns the text of --help: each key's flag, variable, type, range, default.
std::string HelpText();

// Returns the configuration as a YAML file that Load can read. For each value that is not the default, a comment shows
// its origin.
std::string ToYaml(const Loaded& loaded);

}  // namespace maxsim::config
