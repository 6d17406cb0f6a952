#include "server/cluster/router_info.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace maxsim::cluster {
namespace {

// Returns "left out for collection c: REASON" for each collection for which a replica is left out.
std::vector<std::string> ReasonsOf(const View& view, const Replica& replica) {
  std::vector<std::string> reasons;
  for (const v1::ReplicaCollection& report : view.ReportsOf(replica)) {
    if (report.left_out().empty()) continue;
    reasons.push_back(absl::StrCat("left out for collection ", report.name(), ": ", report.left_out()));
  }
  return reasons;
}

}  // namespace

bool Answers(const Group& group) {
  const Replicas replicas = group.replicas();
  return std::any_of(replicas.begin(), replicas.end(),
                     [](const std::shared_ptr<Replica>& replica) { return replica->poll_status().ok(); });
}

void AddGroups(const View& view, absl::Time now, v1::GetInfoResponse& response) {
  const std::map<const Group*, std::string> in_one_zone = GroupsInOneZone(view.groups());
  for (const std::shared_ptr<Group>& group : view.groups()) {
    v1::GroupInfo& info = *response.add_groups();
    info.set_name(group->name());
    if (const auto zone = in_one_zone.find(group.get()); zone != in_one_zone.end()) info.set_single_zone(zone->second);
    const absl::Duration percentile = group->latencies().percentile();
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      v1::ReplicaInfo& of_replica = *info.add_replicas();
      of_replica.set_target(replica->target());
      of_replica.set_calls_in_flight(static_cast<uint32_t>(std::max(0, replica->calls_in_flight())));
      if (const auto said = replica->info(); said != nullptr) {
        of_replica.set_version(said->version());
        of_replica.set_zone(said->zone());
      }
      if (percentile < absl::InfiniteDuration()) of_replica.set_p95_us(absl::ToDoubleMicroseconds(percentile));
      of_replica.set_state(view.StateOf(*replica, now));
      const absl::Status status = replica->poll_status();
      of_replica.set_error(status.ok() ? absl::StrJoin(ReasonsOf(view, *replica), "; ")
                                       : std::string(status.message()));
      for (const v1::ReplicaCollection& report : view.ReportsOf(*replica)) *of_replica.add_collections() = report;
    }
  }
}

std::string DescribeLosses(const View& view) {
  std::string text;
  const std::map<const Group*, std::string> in_one_zone = GroupsInOneZone(view.groups());
  for (const auto& [name, collection] : view.collections()) {
    if (collection->info.state() == v1::COLLECTION_STATE_READY) continue;
    absl::StrAppend(&text, "collection ", name,
                    collection->status.ok() ? " lacks documents: " : " is not served: ", collection->info.error(),
                    "\n");
  }
  for (const std::shared_ptr<Group>& group : view.groups()) {
    if (!Answers(*group)) absl::StrAppend(&text, "group ", group->name(), " does not answer\n");
    if (const auto zone = in_one_zone.find(group.get()); zone != in_one_zone.end()) {
      absl::StrAppend(&text, "group ", group->name(), " has all replicas in zone ", zone->second,
                      ", and would be lost with it\n");
    }
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      const std::string origin = absl::StrCat("replica ", replica->target(), " of group ", group->name());
      const absl::Status status = replica->poll_status();
      if (!status.ok()) {
        absl::StrAppend(&text, origin, ": ", status.message(), "\n");
        continue;
      }
      for (const std::string& reason : ReasonsOf(view, *replica)) absl::StrAppend(&text, origin, ": ", reason, "\n");
    }
  }
  return text;
}

}  // namespace maxsim::cluster
