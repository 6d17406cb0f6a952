// The command `maxsim-shard upgrade`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace maxsim::shard_tool {

struct UpgradeArguments {
  std::string folder;
  bool check = false;
  bool quiet = false;
};

// Adds the flags of the command to `app`; parsing fills `arguments`, which must outlive `app`.
void AddUpgrade(CLI::App& app, UpgradeArguments& arguments);

// Upgrades the files of earlier versions; with `check`, only prints the versions. Returns the exit code: with `check`,
// kExitFailed if there is something to upgrade.
int RunUpgrade(const UpgradeArguments& arguments);

}  // namespace maxsim::shard_tool
