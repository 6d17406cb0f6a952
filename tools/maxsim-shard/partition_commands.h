// The commands `maxsim-shard split` and `maxsim-shard merge`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "collection/build/builder.h"

namespace maxsim::shard_tool {

struct SplitArguments {
  std::string folder;
  int into = 0;
  std::string output;
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  bool quiet = false;
};

struct MergeArguments {
  std::vector<std::string> folders;
  std::string output;
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  bool quiet = false;
};

// Add the flags of a command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddSplit(CLI::App& app, SplitArguments& arguments);
void AddMerge(CLI::App& app, MergeArguments& arguments);

// Return the exit code.
int RunSplit(const SplitArguments& arguments);
int RunMerge(const MergeArguments& arguments);

}  // namespace maxsim::shard_tool
