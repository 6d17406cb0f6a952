// The metrics of a router: its calls to groups (servers that hold the same documents) and the state of replicas. They
// are part of Metrics (metrics.h), and documented in docs/reference/metrics.md. A server that is not a router has none
// of these series.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace maxsim {

// The class is thread-safe.
class ClusterMetrics {
 public:
  // `registry` must outlive it.
  explicit ClusterMetrics(prometheus::Registry& registry);
  ~ClusterMetrics();

  // Counts a finished call to a group, whichever replica of the group answered.
  void CountCall(std::string_view group, absl::StatusCode code, absl::Duration duration);
  // Counts a second replica that was asked before the first had answered.
  void CountHedge(std::string_view group);
  // Counts a replica's error after which another replica was asked, or would have been if one had been left.
  void CountRetry(std::string_view group);
  // Counts a replica's answer that the router refused. `field` names the wrong field, and must be one of a few
  // constants.
  void CountBadAnswer(std::string_view group, std::string_view field);

  // The gauges of one collection on one replica.
  struct HeldGauges {
    std::string name;
    double generation = 0;
    double sequence = 0;
    double lag_writes = 0;
    double lag_seconds = 0;
    bool is_left_out = false;
  };
  struct ReplicaGauges {
    bool answers = false;
    bool is_ejected = false;
    int calls_in_flight = 0;
    std::vector<HeldGauges> collections = {};
  };
  // Also removes the series of collections that the replica no longer has.
  void SetReplica(std::string_view group, std::string_view target, const ReplicaGauges& gauges);
  // Removes the series of a replica that is no longer configured.
  void RemoveReplica(std::string_view group, std::string_view target);

  struct CollectionGauges {
    std::string name;
    bool is_served = false;
    int num_missing_groups = 0;
  };
  // Sets the gauges of all collections, and removes those of collections that are not in the list.
  void SetCollections(const std::vector<CollectionGauges>& collections);

  struct GroupGauges {
    std::string name;
    bool is_in_one_zone = false;
  };
  // Sets the gauges of all groups, and removes those of groups that are not in the list.
  void SetGroups(const std::vector<GroupGauges>& groups);

  // Sets the number of calls in flight to all groups. Routers can be scaled by it.
  void SetCallsInFlight(int calls);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace maxsim
