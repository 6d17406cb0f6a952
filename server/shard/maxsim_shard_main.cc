#include "server/shard/cli.h"

int main(int argc, char** argv) { return maxsim::shard::RunCli(argc, argv); }
