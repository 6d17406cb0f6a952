// A group of replicas that hold the same partitions. Chooses the replica for a call, and limits the group's calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "server/cluster/groups/replica.h"
#include "server/cluster/observed/latency_window.h"

namespace maxsim::cluster {

using Replicas = std::vector<std::shared_ptr<Replica>>;

// A replica outside the router's zone gets a call only if every suitable replica in the zone has at least this many
// times as many calls in flight; the new call counts for the replica outside. So calls leave a zone that is overloaded
// or slow. Example: if half of the replicas are outside, and the zone answers s times slower, a busy router sends
// 8 / (8 + s) of its calls to the zone: 89 % if the zone is as fast as the others, half if it is 8 times slower. Up to
// 8 calls in flight per replica of the zone, all calls stay in it.
inline constexpr int kOtherZoneCost = 8;

// Chooses the replica to ask among those that are not in `tried`. Prefers, in this order, one that is not ejected,
// answers polls in time, is not full, and has the fewest calls in flight; `turn` decides between equally good ones.
// Picks an ejected replica if there is no other, since it may still answer. Returns null if all have been tried.
//
// `own_zone` is the router's zone. With kNoZone, zones play no part. Otherwise, among replicas that are not full, one
// in a zone that has none of `tried` comes first, because a zone in trouble is a likely reason to ask a second replica.
// After that, calls in flight count as kOtherZoneCost says. The function does not allocate.
std::shared_ptr<Replica> ChooseReplica(const Replicas& replicas, absl::Span<const Replica* const> tried, absl::Time now,
                                       uint64_t turn, ZoneId own_zone = kNoZone);

// The class is thread-safe.
class Group {
 public:
  // `own_zone` is the router's zone, or kNoZone.
  Group(std::string name, int max_calls_in_flight, ZoneId own_zone = kNoZone)
      : name_(std::move(name)), max_calls_(max_calls_in_flight), own_zone_(own_zone) {}

  const std::string& name() const { return name_; }
  ZoneId own_zone() const { return own_zone_; }

  Replicas replicas() const;
  void SetReplicas(Replicas replicas);

  // Counts a call as in flight; returns false, and counts nothing, if the group is at its limit. EndCall uncounts it.
  bool TryBeginCall();
  void EndCall() { calls_in_flight_.fetch_sub(1, std::memory_order_relaxed); }
  int calls_in_flight() const { return calls_in_flight_.load(std::memory_order_relaxed); }
  int max_calls_in_flight() const { return max_calls_; }

  // The durations of answered calls. A call asks a second replica once it has taken longer than the percentile
  // cluster.hedge_at of these durations.
  LatencyWindow& latencies() { return latencies_; }
  const LatencyWindow& latencies() const { return latencies_; }

  // The budget for hedges: one call in ten may ask a second replica before the first has answered. Call EarnHedge once
  // per call, and TakeHedge before a call asks a second replica; it must not ask if TakeHedge returns false.
  void EarnHedge();
  bool TakeHedge();

  uint64_t NextTurn() { return turn_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // In tenths, so that ten calls earn one.
  static constexpr int kHedgeCost = 10;
  static constexpr int kMaxHedges = 10 * kHedgeCost;

  const std::string name_;
  const int max_calls_;
  const ZoneId own_zone_;
  std::atomic<int> calls_in_flight_{0};
  std::atomic<int> hedges_{kHedgeCost};
  std::atomic<uint64_t> turn_{0};
  LatencyWindow latencies_;
  mutable Mutex mutex_;
  Replicas replicas_ ABSL_GUARDED_BY(mutex_);
};

// Returns the groups that the loss of one zone takes away, with the name of that zone: groups of at least two replicas
// that are all in one zone. A group with a replica whose zone is unknown is not returned. Returns nothing if the
// replicas of all groups name fewer than two zones, because then a replica could not be anywhere else.
std::map<const Group*, std::string> GroupsInOneZone(const std::vector<std::shared_ptr<Group>>& groups);

}  // namespace maxsim::cluster
