// Adds the command `cluster` and its subcommands: they show and change which groups of servers answer for which slots
// of a collection.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

void AddCluster(CLI::App& app, Context& context);

namespace cluster {

// Add subcommands of `cluster`: layout; rebalance, add-group, remove-group and move-slots; replace-replica.
void AddLayout(CLI::App& cluster, Context& context);
void AddMoves(CLI::App& cluster, Context& context);
void AddReplaceReplica(CLI::App& cluster, Context& context);

}  // namespace cluster
}  // namespace maxsim::ctl
