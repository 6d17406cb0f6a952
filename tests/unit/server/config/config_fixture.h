// Loads configurations from texts, command-line arguments and environment variables that a test gives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/load.h"

namespace maxsim::config {

using Variables = std::map<std::string, std::string>;

inline absl::StatusOr<Loaded> LoadWith(const std::vector<std::string>& args, const Variables& variables = {}) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  return Load(
      args,
      [&](const char* name) {
        const auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second.c_str();
      },
      names);
}

inline std::string ErrorOf(const absl::StatusOr<Loaded>& loaded) { return std::string(loaded.status().message()); }

inline absl::Status Apply(const std::string& yaml, Loaded* loaded) { return ApplyYaml(yaml, "conf.yaml", *loaded); }

inline std::string YamlError(const std::string& yaml) {
  Loaded loaded;
  return std::string(Apply(yaml, &loaded).message());
}

}  // namespace maxsim::config
