#include "server/cluster/groups/view_reporter.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/observability/logging.h"

namespace maxsim::cluster {

bool ViewReporter::Changes(const std::string& key, bool is_problem, absl::Time now) {
  const auto found = problems_.find(key);
  const bool was_logged = found != problems_.end() && found->second.is_logged;
  if (!is_problem) return was_logged;
  Problem& problem = still_[key];
  problem = found == problems_.end() ? Problem{.since = now} : found->second;
  problem.is_logged = was_logged || now - problem.since >= kPatience;
  return problem.is_logged && !was_logged;
}

void ViewReporter::ReportCollections(const View& view, absl::Time now) {
  std::vector<ClusterMetrics::CollectionGauges> all;
  for (const auto& [name, collection] : view.collections()) {
    const bool is_served = collection->status.ok();
    const bool is_whole = is_served && collection->missing_groups.empty();
    all.push_back({.name = name,
                   .is_served = is_served,
                   .num_missing_groups = static_cast<int>(collection->missing_groups.size())});
    if (!Changes(name, !is_whole, now)) continue;
    if (is_whole) {
      log::Write(spdlog::level::info, "collection_is_whole", {{"name", name}});
    } else {
      log::Write(is_served ? spdlog::level::warn : spdlog::level::err,
                 is_served ? "collection_is_partial" : "collection_not_served",
                 {{"name", name}, {"error", collection->info.error()}});
    }
  }
  metrics_->SetCollections(all);
}

void ViewReporter::ReportReplicas(const View& view, absl::Time now) {
  int calls_in_flight = 0;
  for (const std::shared_ptr<Group>& group : view.groups()) {
    calls_in_flight += group->calls_in_flight();
    for (const std::shared_ptr<Replica>& replica : group->replicas()) {
      ClusterMetrics::ReplicaGauges gauges{.answers = replica->poll_status().ok(),
                                           .is_ejected = replica->health().is_ejected(now),
                                           .calls_in_flight = replica->calls_in_flight(),
                                           .collections = {}};
      for (const v1::ReplicaCollection& report : view.ReportsOf(*replica)) {
        const bool is_left_out = !report.left_out().empty();
        gauges.collections.push_back({.name = report.name(),
                                      .generation = static_cast<double>(report.generation()),
                                      .sequence = static_cast<double>(report.sequence()),
                                      .lag_writes = static_cast<double>(report.lag_writes()),
                                      .lag_seconds = report.lag_seconds(),
                                      .is_left_out = is_left_out});
        if (!Changes(absl::StrCat(group->name(), " ", replica->target(), " ", report.name()), is_left_out, now))
          continue;
        if (is_left_out) {
          log::Write(spdlog::level::warn, "replica_left_out",
                     {{"group", group->name()},
                      {"replica", replica->target()},
                      {"name", report.name()},
                      {"reason", report.left_out()}});
        } else {
          log::Write(spdlog::level::info, "replica_used_again",
                     {{"group", group->name()}, {"replica", replica->target()}, {"name", report.name()}});
        }
      }
      metrics_->SetReplica(group->name(), replica->target(), gauges);
    }
  }
  metrics_->SetCallsInFlight(calls_in_flight);
}

void ViewReporter::ReportZones(const View& view, absl::Time now) {
  const std::map<const Group*, std::string> in_one_zone = GroupsInOneZone(view.groups());
  std::vector<ClusterMetrics::GroupGauges> all;
  for (const std::shared_ptr<Group>& group : view.groups()) {
    const auto zone = in_one_zone.find(group.get());
    const bool is_in_one = zone != in_one_zone.end();
    all.push_back({.name = group->name(), .is_in_one_zone = is_in_one});
    if (!Changes(absl::StrCat("zone ", group->name()), is_in_one, now)) continue;
    if (is_in_one) {
      log::Write(spdlog::level::warn, "group_in_one_zone", {{"group", group->name()}, {"zone", zone->second}});
    } else {
      log::Write(spdlog::level::info, "group_no_longer_in_one_zone", {{"group", group->name()}});
    }
  }
  metrics_->SetGroups(all);
}

void ViewReporter::Report(const View& view, absl::Time now) {
  still_.clear();
  ReportCollections(view, now);
  ReportReplicas(view, now);
  ReportZones(view, now);
  problems_.swap(still_);
}

}  // namespace maxsim::cluster
