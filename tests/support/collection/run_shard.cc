#include "tests/support/collection/run_shard.h"

#include "gtest/gtest.h"
#include "tools/maxsim-shard/commands.h"

namespace maxsim::shard_tool {

Outcome RunShard(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "maxsim-shard");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = RunMaxsimShard(static_cast<int>(arguments.size()), argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace maxsim::shard_tool
