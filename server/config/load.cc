#include "server/config/load.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/text.h"
#include "server/config/collections.h"
#include "server/config/keys.h"
#include "server/config/values.h"

namespace maxsim::config {
namespace {

absl::Status Prefixed(std::string_view prefix, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(std::string(prefix), ": ", status.message()));
}

absl::Status SetKey(const Key& key, std::string_view text, const std::string& origin, Loaded& loaded) {
  if (absl::Status status = key.set(text, loaded.config); !status.ok()) {
    return Prefixed(absl::StrCat(origin, ": ", key.name), status);
  }
  loaded.origins[key.name] = origin;
  return absl::OkStatus();
}

// Adds the collections in `text`: NAME=PATH with options (ParseCollection), or several of these separated by ';'. They
// replace collections of the same name from earlier origins (such as the file). `seen` has the names that this origin
// has already given: a second collection of the same name is an error.
absl::Status AddCollections(std::string_view text, const std::string& origin, std::set<std::string>& seen,
                            Loaded& loaded) {
  for (absl::string_view part : absl::StrSplit(std::string(text), ';', absl::SkipEmpty())) {
    absl::StatusOr<CollectionConfig> collection = ParseCollection(std::string(part));
    if (!collection.ok()) return Prefixed(origin, collection.status());
    if (!seen.insert(collection->name).second) {
      return absl::InvalidArgumentError(absl::StrCat(origin, ": name ", collection->name, " appears twice"));
    }
    loaded.origins[CollectionKey(collection->name)] = origin;
    MergeCollection(*std::move(collection), loaded.config.collections);
  }
  return absl::OkStatus();
}

// `named_by` says where the file's path came from: --config or MAXSIM_CONFIG.
absl::Status ApplyFile(const std::string& path, const char* named_by, Loaded& loaded) {
  // Refuse a folder. Reading it would give an empty text, so the server would start with defaults, without
  // authentication. A mistyped bind mount is a common cause: container runtimes create a folder for it.
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(named_by, ": ", path, " is a folder, not a file"));
  }
  const std::optional<std::string> text = ReadToEnd(path);
  if (!text.has_value()) {
    const std::string message =
        absl::StrCat(named_by, ": cannot read ", path, errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(message) : absl::NotFoundError(message);
  }
  // Reading an empty pipe would make the server start with defaults, too.
  if (text->empty() && OtherKind(path) == "a pipe") {
    return absl::InvalidArgumentError(absl::StrCat(named_by, ": ", path, " is a pipe that no process writes to"));
  }
  return ApplyYaml(*text, path, loaded);
}

absl::Status ApplyEnvironment(const Environment& environment, const std::vector<std::string>& names, Loaded& loaded) {
  std::vector<std::string> known;
  for (const Key& key : Keys()) {
    known.push_back(EnvironmentName(key.name));
    const char* value = environment(known.back().c_str());
    if (value == nullptr) continue;
    if (absl::Status status = SetKey(key, value, known.back(), loaded); !status.ok()) return status;
  }
  if (const char* value = environment("MAXSIM_COLLECTIONS"); value != nullptr) {
    std::set<std::string> seen;
    if (absl::Status status = AddCollections(value, "MAXSIM_COLLECTIONS", seen, loaded); !status.ok()) return status;
  }
  // A variable of another name is not an error: variables of other programs (MAXSIM_SERVER) and of Kubernetes
  // (MAXSIM_SERVICE_HOST) have the same prefix.
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, "MAXSIM_") || std::count(name.begin(), name.end(), '_') < 2) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = Nearest(name, known);
    if (nearest.empty() || std::max(nearest.size(), name.size()) - std::min(nearest.size(), name.size()) > 2) continue;
    loaded.warnings.push_back(
        absl::StrCat("environment variable ", name, " is not a key; did you mean ", nearest, "?"));
  }
  return absl::OkStatus();
}

// A flag of the command line. All are parsed before any is applied, because --config must come first.
struct Flag {
  std::string name;  // without dashes
  std::string value;
};

const std::set<std::string>& Switches() {
  static const auto* const names = new std::set<std::string>{"help", "version", "print-config", "check-config"};
  return *names;
}

// Returns OK for a known flag, else an error that suggests a similar flag.
absl::Status CheckKnown(const std::string& flag) {
  std::vector<std::string> known = {"config", "collection", "backend"};
  for (const Key& candidate : Keys()) known.push_back(candidate.name);
  for (const std::string& name : Switches()) known.push_back(name);
  if (std::find(known.begin(), known.end(), flag) != known.end()) return absl::OkStatus();
  const std::string nearest = Nearest(flag, known);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag --", flag, nearest.empty() ? "" : absl::StrCat(" (did you mean --", nearest, "?)")));
}

absl::StatusOr<std::vector<Flag>> SplitFlags(const std::vector<std::string>& args) {
  std::vector<Flag> flags;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "-h") {
      flags.push_back({"help", ""});
      continue;
    }
    if (!absl::StartsWith(args[i], "--") || args[i].size() < 3) {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", args[i], "\"; see --help"));
    }
    const size_t equals = args[i].find('=');
    Flag flag{args[i].substr(2, equals == std::string::npos ? equals : equals - 2), ""};
    if (equals != std::string::npos) {
      if (Switches().count(flag.name) > 0) {
        return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " takes no value"));
      }
      flag.value = args[i].substr(equals + 1);
    } else if (Switches().count(flag.name) == 0) {
      if (i + 1 == args.size()) {
        if (absl::Status status = CheckKnown(flag.name); !status.ok()) return status;
        return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " needs a value"));
      }
      flag.value = args[++i];
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

// `seen` has the names of the collections that earlier flags named.
absl::Status ApplyFlag(const Flag& flag, std::set<std::string>& seen, Loaded& loaded) {
  const std::string origin = absl::StrCat("--", flag.name);
  if (flag.name == "config") return absl::OkStatus();
  if (flag.name == "collection") return AddCollections(flag.value, origin, seen, loaded);
  const Key* const key = FindKey(flag.name == "backend" ? "backend.kind" : flag.name);
  if (key == nullptr) return CheckKnown(flag.name);
  if (absl::Status status = key->set(flag.value, loaded.config); !status.ok()) return Prefixed(origin, status);
  loaded.origins[key->name] = origin;
  return absl::OkStatus();
}

std::optional<Action> ActionOf(const std::vector<Flag>& flags) {
  // --help overrides everything else, so it can be added to any command line.
  for (const auto& [name, action] : {std::pair{"help", Action::kHelp}, std::pair{"version", Action::kVersion}}) {
    for (const Flag& flag : flags) {
      if (flag.name == name) return action;
    }
  }
  for (const Flag& flag : flags) {
    if (flag.name == "print-config") return Action::kPrintConfig;
    if (flag.name == "check-config") return Action::kCheckConfig;
  }
  return std::nullopt;
}

absl::StatusOr<Loaded> LoadSources(const std::vector<std::string>& args, const Environment& all,
                                   const std::vector<std::string>& names) {
  // Ignore empty variables. If a deployment template has no value for a variable, it leaves the variable empty, and
  // that must not switch off authentication.
  const Environment environment = [&all](const char* name) -> const char* {
    const char* value = all(name);
    return value == nullptr || *value == '\0' ? nullptr : value;
  };
  absl::StatusOr<std::vector<Flag>> flags = SplitFlags(args);
  if (!flags.ok()) return flags.status();
  Loaded loaded;
  loaded.action = ActionOf(*flags).value_or(Action::kServe);
  if (loaded.action == Action::kHelp || loaded.action == Action::kVersion) return loaded;

  std::string file;
  const char* named_by = "MAXSIM_CONFIG";
  if (const char* value = environment("MAXSIM_CONFIG"); value != nullptr) file = value;
  for (const Flag& flag : *flags) {
    if (flag.name != "config") continue;
    file = flag.value;
    named_by = "--config";
  }
  if (!file.empty()) {
    if (absl::Status status = ApplyFile(file, named_by, loaded); !status.ok()) return status;
  }
  if (absl::Status status = ApplyEnvironment(environment, names, loaded); !status.ok()) return status;
  std::set<std::string> collections;
  for (const Flag& flag : *flags) {
    if (Switches().count(flag.name) > 0) continue;
    if (absl::Status status = ApplyFlag(flag, collections, loaded); !status.ok()) return status;
  }
  if (absl::Status status = Validate(loaded.config); !status.ok()) return status;
  for (std::string& warning : Warnings(loaded.config)) loaded.warnings.push_back(std::move(warning));
  return loaded;
}

}  // namespace

absl::StatusOr<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                            const std::vector<std::string>& names) {
  absl::StatusOr<Loaded> loaded = LoadSources(args, environment, names);
  if (loaded.ok()) return loaded;
  // Make the message printable: it quotes a file, a variable or a flag, and goes to terminals and logs.
  constexpr size_t kLongestMessage = 2000;
  const absl::string_view message = loaded.status().message();
  return absl::Status(loaded.status().code(), Printable({message.data(), message.size()}, kLongestMessage));
}

std::vector<std::string> EnvironmentNames() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace maxsim::config
