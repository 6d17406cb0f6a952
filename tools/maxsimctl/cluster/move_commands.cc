// maxsimctl cluster rebalance, add-group, remove-group and move-slots: each makes a layout from the present one, and
// moves the slots.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/cluster/commands.h"
#include "tools/maxsimctl/cluster/layouts.h"
#include "tools/maxsimctl/cluster/plan_text.h"
#include "tools/maxsimctl/cluster/run_flags.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::SlotRange;

// Makes the wanted owners from the present ones.
using ChooseOwners = std::function<absl::StatusOr<Owners>(const Owners& owners)>;

struct MoveFlags {
  RunFlags run;
  std::vector<std::string> groups;
  std::string group, from, to;
  std::optional<uint32_t> position;
  SlotRange slots;
};

void PrintMoved(const std::string& name, const Owners& wanted, const RunReport& report, absl::Duration took,
                const Context& context) {
  if (context.options.json) {
    context.Print({{"collection", name},
                   {"revision", report.revision},
                   {"layout", OwnersJson(wanted)},
                   {"steps", report.num_steps},
                   {"fetched_bytes", report.fetched_bytes},
                   {"seconds", absl::ToDoubleSeconds(took)}});
    return;
  }
  const std::string layout = report.revision > 0 ? Cat(", layout ", report.revision) : std::string();
  context.out() << command_line::WithoutControls(Cat(
                       name, layout, ": ", DescribeOwners(wanted), "; ", report.num_steps, " steps, ",
                       FormatBytes(static_cast<int64_t>(report.fetched_bytes)), " fetched in ", DescribeDuration(took)))
                << '\n';
}

absl::Status RunMove(const RunFlags& flags, const ChooseOwners& choose, Context& context) {
  const absl::Time began = MonotonicNow();
  Servers servers(context, flags.group_token_file);
  const absl::StatusOr<ClusterState> state = servers.Read(flags.name);
  if (!state.ok()) return state.status();
  const absl::StatusOr<Owners> owners = CurrentOwners(*state);
  if (!owners.ok()) return owners.status();
  const absl::StatusOr<Owners> wanted = choose(*owners);
  if (!wanted.ok()) return wanted.status();
  const RunOptions options = flags.Options();
  const absl::StatusOr<std::vector<PlannedStep>> plan = MakePlan(*state, *wanted, options.plan);
  if (!plan.ok()) return plan.status();
  if (flags.dry_run || plan->empty()) {
    PrintPlan(flags.name, *state, *wanted, *plan, flags.BytesPerSecond(), context);
    return absl::OkStatus();
  }
  context.err() << Cat(plan->size(), plan->size() == 1 ? " step" : " steps", ", about ",
                       DescribeDuration(EstimateDuration(*plan, flags.BytesPerSecond())), " at ", flags.pace,
                       " a second; --dry-run prints them\n");
  const absl::StatusOr<RunReport> report = Runner(servers, context, flags.name, options).Move(*wanted);
  if (!report.ok()) {
    context.err() << "stopped; the same command goes on from here\n";
    return report.status();
  }
  PrintMoved(flags.name, *wanted, *report, MonotonicNow() - began, context);
  return absl::OkStatus();
}

// Adds a command that moves slots, with the flags that all of them have.
CLI::App& AddMove(CLI::App& cluster, const char* name, const char* description, MoveFlags& flags) {
  CLI::App* command = cluster.add_subcommand(name, description);
  AddStateFlags(*command, flags.run);
  AddRunFlags(*command, flags.run);
  AddGraceFlag(*command, flags.run);
  return *command;
}

void AddRebalance(CLI::App& cluster, Context& context) {
  auto flags = std::make_shared<MoveFlags>();
  CLI::App& command = AddMove(cluster, "rebalance", "Give these groups equal ranges of slots, and others none", *flags);
  command.add_option("--groups", flags->groups, "The groups, in the order of their slots")
      ->required()
      ->delimiter(',')
      ->type_name("NAME,...");
  command.footer(
      "The collection is written and searched meanwhile. A command that was interrupted, at whatever point, goes on\n"
      "when it is run again. Keep the present order of the groups, because otherwise most slots move.\n\n"
      "Example: maxsimctl --server router:7070 cluster rebalance notes --groups g0,g1,g2 --dry-run");
  command.callback([flags, &context] {
    context.result = RunMove(
        flags->run, [&](const Owners&) { return EqualOwners(flags->groups); }, context);
  });
}

void AddAddGroup(CLI::App& cluster, Context& context) {
  auto flags = std::make_shared<MoveFlags>();
  CLI::App& command = AddMove(cluster, "add-group", "Give one more group slots, and all groups equal ranges", *flags);
  command.add_option("group", flags->group, "Group of the router, whose servers need not have the collection")
      ->required()
      ->type_name("GROUP");
  command
      .add_option("--at", flags->position,
                  "Number of groups before it in the order of the slots; by default it comes last")
      ->type_name("POSITION");
  command.footer("Example: maxsimctl --server router:7070 cluster add-group notes g2");
  command.callback([flags, &context] {
    const auto choose = [&](const Owners& owners) { return WithGroup(owners, flags->group, flags->position); };
    context.result = RunMove(flags->run, choose, context);
  });
}

void AddRemoveGroup(CLI::App& cluster, Context& context) {
  auto flags = std::make_shared<MoveFlags>();
  CLI::App& command =
      AddMove(cluster, "remove-group", "Take all slots from a group, and give the others equal ranges", *flags);
  command.add_option("group", flags->group, "Group that answers for slots")->required()->type_name("GROUP");
  command.footer(
      "At the end the collection is unloaded from the group's servers. Then take the group out of the routers' "
      "list.\n\n"
      "Example: maxsimctl --server router:7070 cluster remove-group notes g2");
  command.callback([flags, &context] {
    const auto choose = [&](const Owners& owners) { return WithoutGroup(owners, flags->group); };
    context.result = RunMove(flags->run, choose, context);
  });
}

void AddMoveSlots(CLI::App& cluster, Context& context) {
  auto flags = std::make_shared<MoveFlags>();
  CLI::App& command =
      AddMove(cluster, "move-slots", "Move slots at the border of two groups from one to the other", *flags);
  command
      .add_option_function<std::string>(
          "slots",
          [flags](const std::string& text) {
            const absl::StatusOr<SlotRange> slots = collection::ParseSlotRange(text);
            if (!slots.ok()) throw CLI::ValidationError("slots", std::string(slots.status().message()));
            flags->slots = *slots;
          },
          "The slots to move")
      ->required()
      ->type_name("FIRST-LAST");
  command.add_option("from", flags->from, "Group that has them")->required()->type_name("FROM");
  command.add_option("to", flags->to, "Group that gets them; one without slots may get either end of FROM's")
      ->required()
      ->type_name("TO");
  command.footer("Example: maxsimctl --server router:7070 cluster move-slots notes 1024-1364 g0 g1");
  command.callback([flags, &context] {
    const auto choose = [&](const Owners& owners) {
      return WithMovedSlots(owners, flags->slots, flags->from, flags->to);
    };
    context.result = RunMove(flags->run, choose, context);
  });
}

}  // namespace

void AddMoves(CLI::App& cluster, Context& context) {
  AddRebalance(cluster, context);
  AddAddGroup(cluster, context);
  AddRemoveGroup(cluster, context);
  AddMoveSlots(cluster, context);
}

}  // namespace maxsim::ctl::cluster
