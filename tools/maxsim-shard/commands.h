// The maxsim-shard program without its main().
#pragma once

namespace maxsim::shard_tool {

// Parses the command line and runs its command. Results go to standard output, progress and errors to standard error.
// Returns the process's exit code: 0; 1 when the command failed or verify found a problem; 2 for a wrong command line;
// 130 when interrupted.
int RunMaxsimShard(int argc, char** argv);

}  // namespace maxsim::shard_tool
