// The table of all configuration keys. From it come the file's layout, the flags, the environment variables, --help,
// --print-config and every message about a key.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/config/config.h"

namespace maxsim::config {

struct Key {
  std::string name;      // "section.key" as in the file; the flag is --section.key
  std::string type;      // for people: "duration", "size", "auto|cpu|cuda", "whole number", ...
  std::string range;     // for people: "1 to 64", or ""
  std::string help;      // one sentence
  bool is_list = false;  // elements are separated by commas in a flag or variable, and a sequence in the file

  // Parses `text` and stores it in `config`. Returns INVALID_ARGUMENT with the value and the limit, but without the
  // key's name.
  std::function<absl::Status(std::string_view text, Config& config)> set;
  // Returns the value in the form that `set` reads.
  std::function<std::string(const Config& config)> get;
};

// Returns all keys in the order of --help. The table is built once.
const std::vector<Key>& Keys();

// Returns nullptr for an unknown name.
const Key* FindKey(std::string_view name);

// Returns "MAXSIM_GRPC_ADDRESS" for "grpc.address".
std::string EnvironmentName(std::string_view key_name);

}  // namespace maxsim::config
