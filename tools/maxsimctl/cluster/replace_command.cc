// maxsimctl cluster replace-replica
#include <memory>
#include <string>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "tools/command_line/server_target.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/cluster/commands.h"
#include "tools/maxsimctl/cluster/plan_text.h"
#include "tools/maxsimctl/cluster/run_flags.h"

namespace maxsim::ctl::cluster {
namespace {

absl::Status RunReplace(const RunFlags& flags, const std::string& address, Context& context) {
  const absl::Time began = MonotonicNow();
  Servers servers(context, flags.group_token_file);
  const absl::StatusOr<ClusterState> state = servers.Read(flags.name);
  if (!state.ok()) return state.status();
  const RunOptions options = flags.Options();
  const absl::StatusOr<Bootstrap> step = PlanReplacement(*state, address, options.plan);
  if (!step.ok()) return step.status();
  if (flags.dry_run) {
    const absl::StatusOr<Owners> owners = CurrentOwners(*state);
    PrintPlan(flags.name, *state, owners.value_or(Owners()), {{.round = 0, .step = *step}}, flags.BytesPerSecond(),
              context);
    return absl::OkStatus();
  }
  const absl::StatusOr<RunReport> report = Runner(servers, context, flags.name, options).Replace(*step);
  if (!report.ok()) return report.status();
  const absl::Duration took = MonotonicNow() - began;
  if (context.options.json) {
    context.Print({{"collection", flags.name},
                   {"address", address},
                   {"group", step->group},
                   {"fetched_bytes", report->fetched_bytes},
                   {"seconds", absl::ToDoubleSeconds(took)}});
  } else {
    context.out() << command_line::WithoutControls(Cat(address, " (", step->group, ") answers for slots ",
                                                       collection::FormatSlotRange(step->slots), " of ", flags.name,
                                                       "; ", FormatBytes(static_cast<int64_t>(report->fetched_bytes)),
                                                       " fetched in ", DescribeDuration(took)))
                  << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddReplaceReplica(CLI::App& cluster, Context& context) {
  auto flags = std::make_shared<RunFlags>();
  auto address = std::make_shared<std::string>();
  CLI::App* command = cluster.add_subcommand(
      "replace-replica", "Copy a group's slots to one of its servers, and wait until the router uses it");
  AddStateFlags(*command, *flags);
  command->add_option("address", *address, "Server of a group, as the router names it; it may be empty")
      ->required()
      ->transform(CLI::Validator(command_line::TakeServerTarget, ""))
      ->type_name("HOST:PORT");
  AddRunFlags(*command, *flags);
  command->footer(
      "If the server has the collection, it gets a new copy, which replaces the old one when it is complete.\n\n"
      "Example: maxsimctl --server router:7070 cluster replace-replica notes 10.0.0.7:7070");
  command->callback([flags, address, &context] { context.result = RunReplace(*flags, *address, context); });
}

}  // namespace maxsim::ctl::cluster
