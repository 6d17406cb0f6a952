// maxsimctl cluster layout
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/cluster/commands.h"
#include "tools/maxsimctl/cluster/plan_text.h"
#include "tools/maxsimctl/cluster/run_flags.h"
#include "tools/maxsimctl/cluster/servers.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::FormatSlotRange;

std::string LayoutCount(uint64_t count) { return FormatCount(static_cast<int64_t>(count)); }

Json ReplicaJson(const ReplicaState& replica) {
  Json json = {{"address", replica.address}, {"answers", replica.answers()}};
  if (replica.held.has_value()) {
    json["slots"] = {{"first_slot", replica.held->first}, {"end_slot", replica.held->end}};
  }
  json["sequence"] = replica.sequence;
  json["lag"] = replica.lag;
  json["bytes"] = replica.num_bytes;
  json["is_ready"] = replica.is_ready;
  json["state"] = replica.state;
  if (!replica.answers()) json["problem"] = replica.problem;
  return json;
}

void PrintLayoutJson(const std::string& name, const ClusterState& state, const absl::StatusOr<Owners>& owners,
                     const Context& context) {
  Json groups = Json::array();
  for (const GroupState& group : state.groups) {
    Json replicas = Json::array();
    for (const ReplicaState& replica : group.replicas) replicas.push_back(ReplicaJson(replica));
    groups.push_back({{"name", group.name}, {"replicas", std::move(replicas)}});
  }
  Json json = {{"collection", name}, {"revision", state.revision}, {"router_revision", state.router_revision}};
  json["owners"] = owners.ok() ? OwnersJson(*owners) : Json::array();
  if (!owners.ok()) json["error"] = std::string(owners.status().message());
  json["groups"] = std::move(groups);
  context.Print(json);
}

void PrintLayout(const ClusterState& state, const absl::StatusOr<Owners>& owners, const Context& context) {
  std::ostream& out = context.out();
  if (state.revision == 0) {
    out << "no layout was set: each group answers for the slots that it holds\n\n";
  } else {
    out << Cat("layout ", state.revision,
               state.router_revision == state.revision
                   ? std::string()
                   : Cat(", which the router does not use yet (it uses ", state.router_revision, ")"),
               "\n\n");
  }
  if (owners.ok()) {
    command_line::Table table({{"group"}, {"slots"}, {"number", command_line::Align::kRight}});
    for (const Owner& owner : *owners) {
      table.AddRow({command_line::WithoutControls(owner.group), FormatSlotRange(owner.slots),
                    LayoutCount(static_cast<uint64_t>(owner.slots.size()))});
    }
    table.Print(out);
  } else {
    context.err() << command_line::WithoutControls(std::string(owners.status().message())) << '\n';
  }
  command_line::Table table({{"group"},
                             {"server"},
                             {"holds"},
                             {"size", command_line::Align::kRight},
                             {"sequence", command_line::Align::kRight},
                             {"lag", command_line::Align::kRight},
                             {"state"}});
  for (const GroupState& group : state.groups) {
    for (const ReplicaState& replica : group.replicas) {
      const bool holds = replica.held.has_value();
      table.AddRow({command_line::WithoutControls(group.name), command_line::WithoutControls(replica.address),
                    holds ? FormatSlotRange(*replica.held) : "-",
                    replica.num_bytes > 0 ? FormatBytes(static_cast<int64_t>(replica.num_bytes)) : "-",
                    holds ? LayoutCount(replica.sequence) : "-", holds ? LayoutCount(replica.lag) : "-",
                    replica.state});
    }
  }
  out << '\n';
  table.Print(out, context.out_is_terminal() ? context.columns() : 0);
  for (const GroupState& group : state.groups) {
    for (const ReplicaState& replica : group.replicas) {
      if (replica.answers()) continue;
      context.err() << command_line::WithoutControls(Cat(NameOf(replica, group.name), " ", replica.problem)) << '\n';
    }
  }
}

absl::Status RunLayout(const RunFlags& flags, Context& context) {
  const absl::StatusOr<ClusterState> state = Servers(context, flags.group_token_file).Read(flags.name);
  if (!state.ok()) return state.status();
  const absl::StatusOr<Owners> owners = CurrentOwners(*state);
  if (context.options.json) {
    PrintLayoutJson(flags.name, *state, owners, context);
  } else {
    PrintLayout(*state, owners, context);
  }
  return absl::OkStatus();
}

}  // namespace

void AddLayout(CLI::App& cluster, Context& context) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command =
      cluster.add_subcommand("layout", "Print which group answers for which slots, and what each server holds");
  AddStateFlags(*command, *flags);
  command->footer("Example: maxsimctl --server router:7070 cluster layout notes");
  command->callback([flags, &context] { context.result = RunLayout(*flags, context); });
}

}  // namespace maxsim::ctl::cluster
