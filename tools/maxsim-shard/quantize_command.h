// The command `maxsim-shard quantize`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "collection/build/builder.h"

namespace maxsim::shard_tool {

struct QuantizeArguments {
  std::string source;
  std::string target;
  std::string name;
  int64_t seed = 0;
  int threads = 0;
  int codes = -1;  // as many planes as the source has
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  std::string queries;
  std::string query_lengths;
  std::string query_texts;
  std::string judgements;
  int64_t sample = 32;
  bool allow_other_shape = false;
  bool refuse_lossy = false;
  bool no_comparison = false;
  bool json = false;
  bool quiet = false;
};

// Adds the flags of the command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddQuantize(CLI::App& app, QuantizeArguments& arguments);

// Quantises and compares. Returns the exit code.
int RunQuantize(const QuantizeArguments& arguments);

}  // namespace maxsim::shard_tool
