// The flags that the commands of `maxsimctl cluster` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "tools/maxsimctl/cluster/runner.h"

namespace maxsim::ctl::cluster {

struct RunFlags {
  std::string name, group_token_file, residency, pace = "100MB";
  double grace_seconds = 10;
  bool dry_run = false, allow_gaps = false;

  RunOptions Options() const;
  double BytesPerSecond() const;  // of `pace`, which the command line has checked
};

// Adds the options of commands that read the cluster's state: the collection's name and the token file of the servers.
void AddStateFlags(CLI::App& command, RunFlags& flags);

// Adds the flags of commands that change what servers hold.
void AddRunFlags(CLI::App& command, RunFlags& flags);

// Adds the flag of commands that wait for routers.
void AddGraceFlag(CLI::App& command, RunFlags& flags);

}  // namespace maxsim::ctl::cluster
