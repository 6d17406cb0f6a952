#include "tools/maxsim-shard/commands.h"

int main(int argc, char** argv) { return maxsim::shard_tool::RunMaxsimShard(argc, argv); }
