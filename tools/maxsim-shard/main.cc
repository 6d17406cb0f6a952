#include "tools/maxsim-shard/cli.h"

int main(int argc, char** argv) { return maxsim::shard_tool::RunCli(argc, argv); }
