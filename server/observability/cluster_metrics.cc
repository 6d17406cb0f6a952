#include "server/observability/cluster_metrics.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/observability/metric_registration.h"

namespace maxsim {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

}  // namespace

struct ClusterMetrics::Families {
  explicit Families(prometheus::Registry& of) : registry(of) {}

  prometheus::Registry& registry;
  Family<Counter>& calls =
      AddCounter(registry, "maxsim_group_calls_total", "Calls of a router to a group of servers, by status code.");
  Family<Histogram>& durations =
      AddHistogram(registry, "maxsim_group_call_duration_seconds", "Time of a router's calls to a group.");
  Family<Counter>& hedges = AddCounter(registry, "maxsim_group_hedges_total",
                                       "Second replicas that were asked before the first had answered.");
  Family<Counter>& retries =
      AddCounter(registry, "maxsim_group_retries_total", "Errors of replicas that another replica could make good.");
  Family<Counter>& bad_answers =
      AddCounter(registry, "maxsim_group_bad_answers_total",
                 "Answers of replicas that were refused because they do not fit their request, by the wrong field.");
  Family<Gauge>& in_one_zone =
      AddGauge(registry, "maxsim_group_in_one_zone",
               "1 while all replicas of the group are in one zone, although the cluster has others.");
  Family<Gauge>& up = AddGauge(registry, "maxsim_replica_up", "1 while the replica answers the router.");
  Family<Gauge>& ejected =
      AddGauge(registry, "maxsim_replica_ejected", "1 while the router leaves the replica out after failures.");
  Family<Gauge>& replica_calls =
      AddGauge(registry, "maxsim_replica_calls_in_flight", "Calls of the router that the replica has not answered.");
  Family<Gauge>& replica_generation =
      AddGauge(registry, "maxsim_replica_generation", "Generation of the collection that the replica has.");
  Family<Gauge>& replica_sequence = AddGauge(registry, "maxsim_replica_sequence",
                                             "Last write of the collection's stream that the replica has applied.");
  Family<Gauge>& replica_lag_writes =
      AddGauge(registry, "maxsim_replica_lag_writes", "Writes of the collection that the replica has not applied.");
  Family<Gauge>& replica_lag_seconds =
      AddGauge(registry, "maxsim_replica_lag_seconds",
               "Time for which the replica has lacked a write that another replica has.");
  Family<Gauge>& replica_left_out = AddGauge(registry, "maxsim_replica_left_out",
                                             "1 while the router sends the replica no requests for the collection.");
  Family<Gauge>& collection_served =
      AddGauge(registry, "maxsim_router_collection_served", "1 while the router can serve the collection.");
  Family<Gauge>& missing_groups = AddGauge(registry, "maxsim_router_collection_missing_groups",
                                           "Groups whose documents answers lack, because they cannot answer now.");
  Family<Gauge>& in_flight =
      AddGauge(registry, "maxsim_router_calls_in_flight", "Calls of the router to all groups that have not ended.");

  struct GroupSeries {
    Histogram* duration = nullptr;
    Counter *hedges = nullptr, *retries = nullptr;
    std::map<absl::StatusCode, Counter*> calls;
    std::map<std::string, Counter*, std::less<>> bad_answers;  // by field
  };
  struct HeldSeries {
    OwnedSeries owned;
    Gauge *generation = nullptr, *sequence = nullptr, *lag_writes = nullptr, *lag_seconds = nullptr;
    Gauge* left_out = nullptr;
  };
  struct ReplicaSeries {
    OwnedSeries owned;
    Gauge *up = nullptr, *ejected = nullptr, *calls = nullptr;
    std::map<std::string, HeldSeries, std::less<>> collections;
  };
  struct ZoneSeries {
    OwnedSeries owned;
    Gauge* in_one_zone = nullptr;
  };
  struct CollectionSeries {
    OwnedSeries owned;
    Gauge *served = nullptr, *missing_groups = nullptr;
  };
  Mutex mutex;
  // The series are cached, because Family::Add takes a lock and hashes its labels.
  std::map<std::string, GroupSeries, std::less<>> groups ABSL_GUARDED_BY(mutex);
  std::map<std::string, ZoneSeries, std::less<>> zones ABSL_GUARDED_BY(mutex);  // by group
  std::map<std::pair<std::string, std::string>, ReplicaSeries> replicas ABSL_GUARDED_BY(mutex);
  std::map<std::string, CollectionSeries, std::less<>> collections ABSL_GUARDED_BY(mutex);

  // Sets the gauges of one replica's collections.
  void SetHeld(const prometheus::Labels& of_replica, const std::vector<HeldGauges>& gauges, ReplicaSeries& replica)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    DropAllBut(gauges, replica.collections);
    for (const HeldGauges& held : gauges) {
      const auto [it, is_new] = replica.collections.try_emplace(held.name);
      HeldSeries& series = it->second;
      if (is_new) {
        prometheus::Labels labels = of_replica;
        labels["collection"] = held.name;
        series.generation = series.owned.Add(replica_generation, labels);
        series.sequence = series.owned.Add(replica_sequence, labels);
        series.lag_writes = series.owned.Add(replica_lag_writes, labels);
        series.lag_seconds = series.owned.Add(replica_lag_seconds, labels);
        series.left_out = series.owned.Add(replica_left_out, labels);
      }
      series.generation->Set(held.generation);
      series.sequence->Set(held.sequence);
      series.lag_writes->Set(held.lag_writes);
      series.lag_seconds->Set(held.lag_seconds);
      series.left_out->Set(held.is_left_out ? 1 : 0);
    }
  }

  // Removes the series whose names are not in the list.
  template <typename Gauges, typename Series>
  static void DropAllBut(const std::vector<Gauges>& kept, std::map<std::string, Series, std::less<>>& series) {
    std::erase_if(series, [&](const auto& one) {
      return std::none_of(kept.begin(), kept.end(), [&](const Gauges& gauges) { return gauges.name == one.first; });
    });
  }

  GroupSeries& SeriesOf(std::string_view group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto found = groups.find(group);
    if (found != groups.end()) return found->second;
    GroupSeries& series = groups[std::string(group)];
    const prometheus::Labels labels = {{"group", std::string(group)}};
    series.duration = &durations.Add(labels, DurationBuckets());
    series.hedges = &hedges.Add(labels);
    series.retries = &retries.Add(labels);
    return series;
  }
};

ClusterMetrics::ClusterMetrics(prometheus::Registry& registry) : families_(std::make_unique<Families>(registry)) {}

ClusterMetrics::~ClusterMetrics() = default;

void ClusterMetrics::CountCall(std::string_view group, absl::StatusCode code, absl::Duration duration) {
  Families& families = *families_;
  Counter* calls = nullptr;
  Histogram* durations = nullptr;
  {
    const MutexLock lock(&families.mutex);
    Families::GroupSeries& series = families.SeriesOf(group);
    Counter*& of_code = series.calls[code];
    if (of_code == nullptr) {
      of_code = &families.calls.Add({{"group", std::string(group)}, {"code", absl::StatusCodeToString(code)}});
    }
    calls = of_code;
    durations = series.duration;
  }
  calls->Increment();
  durations->Observe(absl::ToDoubleSeconds(duration));
}

void ClusterMetrics::CountHedge(std::string_view group) {
  const MutexLock lock(&families_->mutex);
  families_->SeriesOf(group).hedges->Increment();
}

void ClusterMetrics::CountRetry(std::string_view group) {
  const MutexLock lock(&families_->mutex);
  families_->SeriesOf(group).retries->Increment();
}

void ClusterMetrics::CountBadAnswer(std::string_view group, std::string_view field) {
  const MutexLock lock(&families_->mutex);
  auto& of_group = families_->SeriesOf(group).bad_answers;
  auto found = of_group.find(field);
  if (found == of_group.end()) {
    Counter& added = families_->bad_answers.Add({{"group", std::string(group)}, {"field", std::string(field)}});
    found = of_group.emplace(field, &added).first;
  }
  found->second->Increment();
}

void ClusterMetrics::SetReplica(std::string_view group, std::string_view target, const ReplicaGauges& gauges) {
  const MutexLock lock(&families_->mutex);
  const auto [it, is_new] = families_->replicas.try_emplace({std::string(group), std::string(target)});
  Families::ReplicaSeries& series = it->second;
  const prometheus::Labels labels = {{"group", std::string(group)}, {"replica", std::string(target)}};
  if (is_new) {
    series.up = series.owned.Add(families_->up, labels);
    series.ejected = series.owned.Add(families_->ejected, labels);
    series.calls = series.owned.Add(families_->replica_calls, labels);
  }
  series.up->Set(gauges.answers ? 1 : 0);
  series.ejected->Set(gauges.is_ejected ? 1 : 0);
  series.calls->Set(gauges.calls_in_flight);
  families_->SetHeld(labels, gauges.collections, series);
}

void ClusterMetrics::RemoveReplica(std::string_view group, std::string_view target) {
  const MutexLock lock(&families_->mutex);
  families_->replicas.erase({std::string(group), std::string(target)});
}

void ClusterMetrics::SetCollections(const std::vector<CollectionGauges>& collections) {
  const MutexLock lock(&families_->mutex);
  Families::DropAllBut(collections, families_->collections);
  for (const CollectionGauges& gauges : collections) {
    const auto [it, is_new] = families_->collections.try_emplace(gauges.name);
    Families::CollectionSeries& series = it->second;
    if (is_new) {
      const prometheus::Labels labels = {{"collection", gauges.name}};
      series.served = series.owned.Add(families_->collection_served, labels);
      series.missing_groups = series.owned.Add(families_->missing_groups, labels);
    }
    series.served->Set(gauges.is_served ? 1 : 0);
    series.missing_groups->Set(gauges.num_missing_groups);
  }
}

void ClusterMetrics::SetGroups(const std::vector<GroupGauges>& groups) {
  const MutexLock lock(&families_->mutex);
  Families::DropAllBut(groups, families_->zones);
  for (const GroupGauges& gauges : groups) {
    const auto [it, is_new] = families_->zones.try_emplace(gauges.name);
    Families::ZoneSeries& series = it->second;
    if (is_new) series.in_one_zone = series.owned.Add(families_->in_one_zone, {{"group", gauges.name}});
    series.in_one_zone->Set(gauges.is_in_one_zone ? 1 : 0);
  }
}

void ClusterMetrics::SetCallsInFlight(int calls) {
  const MutexLock lock(&families_->mutex);
  static const prometheus::Labels kNone;
  families_->in_flight.Add(kNone).Set(calls);
}

}  // namespace maxsim
