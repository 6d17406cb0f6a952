// The command `maxsim-shard compact`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "collection/build/builder.h"

namespace maxsim::shard_tool {

struct CompactArguments {
  std::string folder;
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  bool quiet = false;
};

// Adds the flags of the command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddCompact(CLI::App& app, CompactArguments& arguments);

// Compacts all writes, leaves no tombstone, and truncates the log. Returns the exit code.
int RunCompact(const CompactArguments& arguments);

}  // namespace maxsim::shard_tool
