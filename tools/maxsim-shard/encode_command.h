// The command `maxsim-shard encode`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace maxsim::shard_tool {

struct EncodeArguments {
  std::string folder;
  int codes = 4;
  int64_t seed = 0;
  int threads = 0;
  bool quiet = false;
};

// Adds the flags of the command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddEncode(CLI::App& app, EncodeArguments& arguments);

// Returns the exit code.
int RunEncode(const EncodeArguments& arguments);

}  // namespace maxsim::shard_tool
