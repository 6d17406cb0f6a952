#include "base/text.h"
#include "base/units.h"
#include "client/info_json.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/read/commands.h"

namespace maxsim::ctl {
namespace {

struct Limit {
  const char* name;
  uint64_t value;
};

std::vector<Limit> ListLimits(const v1::Limits& limits) {
  return {{"max_queries_per_request", limits.max_queries_per_request()},
          {"max_query_tokens", limits.max_query_tokens()},
          {"max_document_tokens", limits.max_document_tokens()},
          {"max_candidates_per_query", limits.max_candidates_per_query()},
          {"max_inline_documents", limits.max_inline_documents()},
          {"max_top_k", limits.max_top_k()},
          {"default_top_k", limits.default_top_k()},
          {"max_request_bytes", limits.max_request_bytes()},
          {"max_answer_bytes", limits.max_answer_bytes()},
          {"max_alignments", limits.max_alignments()},
          {"max_request_work", limits.max_request_work()},
          {"max_queue_work", limits.max_queue_work()}};
}

std::string StateName(v1::ReplicaState state) {
  switch (state) {
    case v1::REPLICA_STATE_READY:
      return "ready";
    case v1::REPLICA_STATE_CONNECTING:
      return "does not answer";
    case v1::REPLICA_STATE_EJECTED:
      return "ejected";
    case v1::REPLICA_STATE_LOADING:
      return "loading";
    case v1::REPLICA_STATE_LEFT_OUT:
      return "left out";
    default:
      return "unknown";
  }
}

Json HeldJson(const v1::ReplicaInfo& replica) {
  Json collections = Json::array();
  for (const v1::ReplicaCollection& held : replica.collections()) {
    Json json = {{"name", held.name()},
                 {"generation", held.generation()},
                 {"sequence", held.sequence()},
                 {"lag_writes", held.lag_writes()},
                 {"lag_seconds", held.lag_seconds()},
                 {"left_out", held.left_out()},
                 {"layout_revision", held.layout_revision()}};
    if (held.has_slots()) json["slots"] = client::PartitionJson<Json>(held.slots());
    collections.push_back(std::move(json));
  }
  return collections;
}

// Returns the slots that a replica holds, in the form of cluster.partition: "0-1364". Returns "all" for all slots, and
// "-" if it has not loaded the collection.
std::string SlotsText(const v1::ReplicaCollection& held) {
  if (held.generation() == 0) return "-";
  if (!held.has_slots() || held.slots().end_slot() == 0) return "all";
  return std::to_string(held.slots().first_slot()) + "-" + std::to_string(held.slots().end_slot() - 1);
}

// Prints what each replica has of each collection.
void PrintHeld(const v1::GetInfoResponse& info, std::ostream& out) {
  command_line::Table table({{"replica"},
                             {"collection"},
                             {"generation", command_line::Align::kRight},
                             {"sequence", command_line::Align::kRight},
                             {"lag", command_line::Align::kRight},
                             {"behind for", command_line::Align::kRight},
                             {"slots"},
                             {"layout", command_line::Align::kRight},
                             {"requests"}});
  bool any = false;
  for (const v1::GroupInfo& group : info.groups()) {
    for (const v1::ReplicaInfo& replica : group.replicas()) {
      for (const v1::ReplicaCollection& held : replica.collections()) {
        any = true;
        table.AddRow({command_line::WithoutControls(replica.target()), command_line::WithoutControls(held.name()),
                      std::to_string(held.generation()),
                      held.sequence() > 0 ? FormatCount(static_cast<int64_t>(held.sequence())) : "-",
                      held.lag_writes() > 0 ? FormatCount(static_cast<int64_t>(held.lag_writes())) + " writes" : "-",
                      held.lag_seconds() > 0 ? command_line::Fixed(held.lag_seconds(), 1) + " s" : "-", SlotsText(held),
                      held.layout_revision() > 0 ? std::to_string(held.layout_revision()) : "-",
                      held.left_out().empty() ? "yes" : "no"});
      }
    }
  }
  if (!any) return;
  out << '\n';
  table.Print(out);
}

Json ServerJson(const v1::GetInfoResponse& info) {
  Json limits = Json::object(), devices = Json::array(), collections = Json::array();
  for (const Limit& limit : ListLimits(info.limits())) limits[limit.name] = limit.value;
  for (const v1::DeviceInfo& device : info.devices()) {
    devices.push_back({{"number", device.number()},
                       {"backend", device.backend()},
                       {"name", device.name()},
                       {"isa", device.isa()},
                       {"memory_bytes", device.memory_bytes()},
                       {"free_bytes", device.free_bytes()},
                       {"lost", device.lost()}});
  }
  for (const v1::CollectionInfo& collection : info.collections()) collections.push_back(ToJson(collection));
  Json json = {{"version", info.version()},   {"commit", info.commit()},       {"zone", info.zone()},
               {"limits", std::move(limits)}, {"devices", std::move(devices)}, {"collections", std::move(collections)}};
  for (const v1::GroupInfo& group : info.groups()) {
    Json replicas = Json::array();
    for (const v1::ReplicaInfo& replica : group.replicas()) {
      replicas.push_back({{"target", replica.target()},
                          {"state", StateName(replica.state())},
                          {"zone", replica.zone()},
                          {"version", replica.version()},
                          {"calls_in_flight", replica.calls_in_flight()},
                          {"p95_us", replica.p95_us()},
                          {"error", replica.error()},
                          {"collections", HeldJson(replica)}});
    }
    json["groups"].push_back(
        {{"name", group.name()}, {"single_zone", group.single_zone()}, {"replicas", std::move(replicas)}});
  }
  if (info.has_encoder()) {
    json["encoder"] = client::EncoderJson<Json>(info.encoder());
  }
  return json;
}

void PrintGroups(const v1::GetInfoResponse& info, std::ostream& out) {
  command_line::Table groups({{"group"},
                              {"replica"},
                              {"zone"},
                              {"version"},
                              {"calls", command_line::Align::kRight},
                              {"p95 of the group", command_line::Align::kRight},
                              {"state"}});
  for (const v1::GroupInfo& group : info.groups()) {
    for (const v1::ReplicaInfo& replica : group.replicas()) {
      groups.AddRow({command_line::WithoutControls(group.name()), command_line::WithoutControls(replica.target()),
                     replica.zone().empty() ? "-" : command_line::WithoutControls(replica.zone()),
                     command_line::WithoutControls(replica.version()), std::to_string(replica.calls_in_flight()),
                     replica.p95_us() > 0 ? FormatCount(static_cast<int64_t>(replica.p95_us())) + " us" : "-",
                     StateName(replica.state())});
    }
  }
  groups.Print(out);
  for (const v1::GroupInfo& group : info.groups()) {
    if (!group.single_zone().empty()) {
      out << command_line::WithoutControls("group " + group.name() + " has all replicas in zone " +
                                           group.single_zone() + ", and would be lost with it")
          << '\n';
    }
    for (const v1::ReplicaInfo& replica : group.replicas()) {
      if (replica.error().empty()) continue;
      out << command_line::WithoutControls(replica.target() + ": " + replica.error()) << '\n';
    }
  }
}

void PrintInfo(const v1::GetInfoResponse& info, const Context& context) {
  std::ostream& out = context.out();
  out << command_line::WithoutControls("maxsimd " + info.version() + " (" + info.commit() + ") at " +
                                       context.options.server + (info.zone().empty() ? "" : ", zone " + info.zone()))
      << "\n\n";
  command_line::Table devices({{"number", command_line::Align::kRight},
                               {"backend"},
                               {"device"},
                               {"isa"},
                               {"memory", command_line::Align::kRight},
                               {"free", command_line::Align::kRight},
                               {"state"}});
  for (const v1::DeviceInfo& d : info.devices()) {
    devices.AddRow({std::to_string(d.number()), command_line::WithoutControls(d.backend()),
                    command_line::WithoutControls(d.name()), command_line::WithoutControls(d.isa()),
                    FormatBytes(static_cast<int64_t>(d.memory_bytes())),
                    FormatBytes(static_cast<int64_t>(d.free_bytes())), d.lost().empty() ? "ok" : "LOST"});
  }
  if (info.groups().empty()) {
    devices.Print(out);
  } else {
    PrintGroups(info, out);
    PrintHeld(info, out);
  }
  if (info.has_encoder()) {
    const v1::EncoderInfo& encoder = info.encoder();
    out << "\nencoder of texts: "
        << (encoder.dim() == 0
                ? "has not answered yet"
                : command_line::WithoutControls(encoder.model() + ", vectors of " + std::to_string(encoder.dim())))
        << '\n';
  }
  for (const v1::DeviceInfo& d : info.devices()) {
    if (!d.lost().empty()) out << command_line::WithoutControls("lost: " + d.lost()) << '\n';
  }
  out << '\n';
  PrintCollections(info.collections(), context);
  out << '\n';
  command_line::Table limits({{"limit"}, {"value", command_line::Align::kRight}});
  for (const Limit& limit : ListLimits(info.limits())) {
    limits.AddRow({limit.name, FormatCount(static_cast<int64_t>(limit.value))});
  }
  limits.Print(out);
}

absl::Status RunInfo(Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::GetInfoResponse> info = (*client)->GetInfo();
  if (!info.ok()) return context.AddAdvice(info.status());
  if (context.options.json) {
    context.Print(ServerJson(*info));
  } else {
    PrintInfo(*info, context);
  }
  return absl::OkStatus();
}

}  // namespace

void AddInfo(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("info", "Print the server's version, devices, collections and limits");
  command->callback([&context] { context.result = RunInfo(context); });
}

}  // namespace maxsim::ctl
