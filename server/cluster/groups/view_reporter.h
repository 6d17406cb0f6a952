// Tells people and metrics what a router's newest view says about collections and replicas.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "server/cluster/groups/view.h"
#include "server/observability/cluster_metrics.h"

namespace maxsim::cluster {

// Not thread-safe.
class ViewReporter {
 public:
  // How long a problem must last before it is logged: reloads and starts cause short ones.
  static constexpr absl::Duration kPatience = absl::Seconds(2);

  // `metrics` must outlive the object.
  explicit ViewReporter(ClusterMetrics* metrics) : metrics_(metrics) {}

  // Sets the gauges of collections, groups, replicas and calls, and removes those of collections and groups that are
  // gone. Logs a line for each problem that has lasted for kPatience, and another line when it is over. Problems are: a
  // collection that cannot be served, or whose answers lack documents; a replica that is left out; and a group that the
  // loss of one zone would take away (GroupsInOneZone). `now` is a time of MonotonicNow().
  void Report(const View& view, absl::Time now);

 private:
  struct Problem {
    absl::Time since;
    bool is_logged = false;
  };
  // Notes whether there is a problem with `key` now. Returns true if its begin or its end must be logged now.
  bool Changes(const std::string& key, bool is_problem, absl::Time now);
  void ReportCollections(const View& view, absl::Time now);
  void ReportReplicas(const View& view, absl::Time now);
  void ReportZones(const View& view, absl::Time now);

  ClusterMetrics* const metrics_;
  // A key is a collection; a group, a replica and a collection; or "zone" and a group. Spaces separate the names, which
  // contain no spaces themselves.
  std::map<std::string, Problem> problems_;  // of the last report
  std::map<std::string, Problem> still_;     // of the report in progress
};

}  // namespace maxsim::cluster
