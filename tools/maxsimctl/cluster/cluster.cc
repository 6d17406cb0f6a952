#include "tools/maxsimctl/cluster/commands.h"

namespace maxsim::ctl {

void AddCluster(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("cluster", "Show and change which groups of servers answer for which slots of a collection");
  command->require_subcommand(1);
  command->footer(
      "--server is a router. The commands also call the servers of its groups, at the addresses that the router uses,\n"
      "with the same TLS flags. The tokens must be ones that may administer.\n\n"
      "Examples:\n"
      "  maxsimctl --server router:7070 cluster layout notes\n"
      "  maxsimctl --server router:7070 cluster add-group notes g2 --dry-run");
  cluster::AddLayout(*command, context);
  cluster::AddMoves(*command, context);
  cluster::AddReplaceReplica(*command, context);
}

}  // namespace maxsim::ctl
