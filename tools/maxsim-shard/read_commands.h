// The commands `maxsim-shard inspect` and `maxsim-shard verify`.
#pragma once

#include <string>

namespace maxsim::shard_tool {

// Print what a collection holds, or what is wrong with it. Return the exit code.
int RunInspect(const std::string& folder, bool json);
int RunVerify(const std::string& folder, bool quiet);

}  // namespace maxsim::shard_tool
