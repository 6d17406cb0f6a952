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

// Writes the collection's next generation with all writes of the log, and truncates the log. The new generation has no
// tombstones (records of deleted ids). Returns the exit code.
int RunCompact(const CompactArguments& arguments);

}  // namespace maxsim::shard_tool
