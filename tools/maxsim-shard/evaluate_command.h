// The command `maxsim-shard evaluate`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace maxsim::shard_tool {

struct EvaluateArguments {
  std::string folder;
  std::string queries;
  std::string query_lengths;
  int64_t sample = 0;
  int32_t top_k = 100;
  int32_t refine = 0;
  int threads = 0;
  bool json = false;
  bool quiet = false;
};

// Adds the flags of the command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddEvaluate(CLI::App& app, EvaluateArguments& arguments);

// Returns the exit code.
int RunEvaluate(const EvaluateArguments& arguments);

}  // namespace maxsim::shard_tool
