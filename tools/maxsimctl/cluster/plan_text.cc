#include "tools/maxsimctl/cluster/plan_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/units.h"
#include "tools/command_line/terminal.h"

namespace maxsim::ctl::cluster {
namespace {

using collection::FormatSlotRange;
using collection::SlotRange;

std::string BytesText(uint64_t bytes) { return FormatBytes(static_cast<int64_t>(bytes)); }

std::string CallText(const char* verb, const Bootstrap& call) {
  return Cat(verb, " ", call.address, " (", call.group, ") with slots ", FormatSlotRange(call.slots), " from ",
             absl::StrJoin(call.sources, ", "), ", about ", BytesText(call.num_bytes));
}

// Makes the line and the JSON of each kind of step.
struct Line {
  std::string operator()(const Bootstrap& step) const { return CallText("bootstrap", step); }
  std::string operator()(const Trim& step) const { return CallText("trim", step.call); }
  std::string operator()(const Unload& step) const { return Cat("unload from ", step.address, " (", step.group, ")"); }
  std::string operator()(const SetLayout& step) const {
    return Cat("set the layout: ", DescribeOwners(step.owners), "; by ", step.address);
  }
  std::string operator()(const WaitForRouters& step) const {
    return Cat("wait until the routers ",
               step.is_before_layout ? "know which slots the servers hold" : Cat("use layout ", step.revision),
               ", and ", absl::FormatDuration(step.grace));
  }
  std::string operator()(const WaitForReplica& step) const {
    return Cat("wait until the router uses ", step.address, " (", step.group, ")");
  }
};

Json SlotsJson(const SlotRange& slots) { return {{"first_slot", slots.first}, {"end_slot", slots.end}}; }

Json CallJson(const char* kind, const Bootstrap& call) {
  return {{"step", kind},
          {"group", call.group},
          {"address", call.address},
          {"slots", SlotsJson(call.slots)},
          {"sources", call.sources},
          {"bytes", call.num_bytes}};
}

struct Structure {
  Json operator()(const Bootstrap& step) const { return CallJson("bootstrap", step); }
  Json operator()(const Trim& step) const { return CallJson("trim", step.call); }
  Json operator()(const Unload& step) const {
    return {{"step", "unload"}, {"group", step.group}, {"address", step.address}};
  }
  Json operator()(const SetLayout& step) const {
    return {{"step", "set_layout"},
            {"address", step.address},
            {"expected_revision", step.expected_revision},
            {"owners", OwnersJson(step.owners)}};
  }
  Json operator()(const WaitForRouters& step) const {
    return {{"step", "wait_for_routers"},
            {"revision", step.revision},
            {"grace_seconds", absl::ToDoubleSeconds(step.grace)}};
  }
  Json operator()(const WaitForReplica& step) const {
    return {{"step", "wait_for_replica"}, {"group", step.group}, {"address", step.address}};
  }
};

// Returns the servers that the plan leaves alone because they do not answer.
std::vector<std::string> LeftAlone(const ClusterState& state) {
  std::vector<std::string> lines;
  for (const GroupState& group : state.groups) {
    for (const ReplicaState& replica : group.replicas) {
      if (!replica.answers()) lines.push_back(Cat(NameOf(replica, group.name), " ", replica.problem));
    }
  }
  return lines;
}

}  // namespace

std::string DescribeOwners(const Owners& owners) {
  return absl::StrJoin(owners, ", ", [](std::string* out, const Owner& owner) {
    out->append(Cat(owner.group, " ", FormatSlotRange(owner.slots)));
  });
}

std::string DescribeStep(const Step& step) { return command_line::WithoutControls(std::visit(Line{}, step)); }

uint64_t BytesToMove(const Step& step) {
  if (const auto* bootstrap = std::get_if<Bootstrap>(&step)) return bootstrap->num_bytes;
  if (const auto* trim = std::get_if<Trim>(&step)) return trim->call.num_bytes;
  return 0;
}

absl::Duration EstimateDuration(const std::vector<PlannedStep>& plan, double bytes_per_second) {
  std::map<int, absl::Duration> rounds;
  for (const PlannedStep& planned : plan) {
    absl::Duration& longest = rounds[planned.round];
    longest = std::max(longest, absl::Seconds(static_cast<double>(BytesToMove(planned.step)) / bytes_per_second));
    if (const auto* wait = std::get_if<WaitForRouters>(&planned.step)) longest = std::max(longest, wait->grace);
  }
  absl::Duration sum;
  for (const auto& [round, longest] : rounds) sum += longest;
  return sum;
}

std::string DescribeDuration(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1)));
  if (seconds < 120) return Cat(seconds, " s");
  const int64_t minutes = (seconds + 59) / 60;
  if (minutes < 60) return Cat(minutes, " min");
  return minutes % 60 == 0 ? Cat(minutes / 60, " h") : Cat(minutes / 60, " h ", minutes % 60, " min");
}

Json OwnersJson(const Owners& owners) {
  Json json = Json::array();
  for (const Owner& owner : owners) json.push_back({{"group", owner.group}, {"slots", SlotsJson(owner.slots)}});
  return json;
}

void PrintPlan(const std::string& name, const ClusterState& state, const Owners& wanted,
               const std::vector<PlannedStep>& plan, double bytes_per_second, const Context& context) {
  uint64_t bytes = 0;
  for (const PlannedStep& planned : plan) bytes += BytesToMove(planned.step);
  const absl::Duration duration = EstimateDuration(plan, bytes_per_second);
  if (context.options.json) {
    Json steps = Json::array();
    for (const PlannedStep& planned : plan) {
      Json step = std::visit(Structure{}, planned.step);
      step["round"] = planned.round;
      steps.push_back(std::move(step));
    }
    context.Print({{"collection", name},
                   {"revision", state.revision},
                   {"layout", OwnersJson(state.owners)},
                   {"wanted", OwnersJson(wanted)},
                   {"steps", std::move(steps)},
                   {"bytes", bytes},
                   {"seconds", absl::ToDoubleSeconds(duration)}});
    return;
  }
  std::ostream& out = context.out();
  for (const std::string& line : LeftAlone(state)) {
    context.err() << command_line::WithoutControls(line) << ": it is left alone\n";
  }
  if (plan.empty()) {
    out << "nothing to do: the layout is " << command_line::WithoutControls(DescribeOwners(wanted)) << '\n';
    return;
  }
  command_line::Table table({{"round", command_line::Align::kRight}, {"step"}});
  for (const PlannedStep& planned : plan) {
    table.AddRow({std::to_string(planned.round + 1), DescribeStep(planned.step)});
  }
  table.Print(out);
  out << Cat("\n", plan.size(), plan.size() == 1 ? " step, " : " steps, ", BytesText(bytes), " to move, about ",
             DescribeDuration(duration), " if each server gets ", BytesText(static_cast<uint64_t>(bytes_per_second)),
             " a second (--pace); steps of one round run at the same time\n");
}

}  // namespace maxsim::ctl::cluster
