// The command `maxsim-shard restore`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "collection/build/builder.h"

namespace maxsim::shard_tool {

struct RestoreArguments {
  std::string url;
  std::string output;
  int into = 1;
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  bool quiet = false;
};

// Adds the flags of the command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddRestore(CLI::App& app, RestoreArguments& arguments);

// Returns the exit code.
int RunRestore(const RestoreArguments& arguments);

}  // namespace maxsim::shard_tool
