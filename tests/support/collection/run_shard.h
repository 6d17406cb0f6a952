// Calls maxsim-shard in this process.
#pragma once

#include <string>
#include <vector>

namespace maxsim::shard_tool {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome RunShard(std::vector<std::string> arguments);

}  // namespace maxsim::shard_tool
