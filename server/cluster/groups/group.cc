#include "server/cluster/groups/group.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace maxsim::cluster {
namespace {

// Returns the number by which a router of `own_zone` compares replicas: a replica's calls in flight, times
// kOtherZoneCost for another zone. There the new call counts too: otherwise the factor would not matter for a replica
// without calls.
int64_t CountedCalls(const Replica& replica, ZoneId own_zone) {
  const int64_t calls = replica.calls_in_flight();
  return own_zone == kNoZone || replica.zone_id() == own_zone ? calls : kOtherZoneCost * (calls + 1);
}

}  // namespace

std::shared_ptr<Replica> ChooseReplica(const Replicas& replicas, absl::Span<const Replica* const> tried, absl::Time now,
                                       uint64_t turn, ZoneId own_zone) {
  // Reasons not to choose a replica, the strongest first. Tuples compare from left to right.
  using Cost = std::tuple<bool, bool, bool, bool, int64_t>;
  std::shared_ptr<Replica> best;
  Cost best_cost;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const std::shared_ptr<Replica>& replica = replicas[(i + turn) % replicas.size()];
    if (std::find(tried.begin(), tried.end(), replica.get()) != tried.end()) continue;
    const bool is_in_tried_zone =
        own_zone != kNoZone && std::any_of(tried.begin(), tried.end(),
                                           [&](const Replica* one) { return one->zone_id() == replica->zone_id(); });
    const Cost cost(replica->health().is_ejected(now), !replica->poll_status().ok() || replica->is_silent(now),
                    replica->health().full_until() > now, is_in_tried_zone, CountedCalls(*replica, own_zone));
    if (best == nullptr || cost < best_cost) {
      best = replica;
      best_cost = cost;
    }
  }
  return best;
}

Replicas Group::replicas() const {
  const MutexLock lock(&mutex_);
  return replicas_;
}

void Group::SetReplicas(Replicas replicas) {
  const MutexLock lock(&mutex_);
  replicas_ = std::move(replicas);
}

bool Group::TryBeginCall() {
  if (calls_in_flight_.fetch_add(1, std::memory_order_relaxed) < max_calls_) return true;
  EndCall();
  return false;
}

void Group::EarnHedge() {
  int hedges = hedges_.load(std::memory_order_relaxed);
  while (hedges < kMaxHedges && !hedges_.compare_exchange_weak(hedges, hedges + 1, std::memory_order_relaxed)) {
  }
}

bool Group::TakeHedge() {
  int hedges = hedges_.load(std::memory_order_relaxed);
  while (hedges >= kHedgeCost) {
    if (hedges_.compare_exchange_weak(hedges, hedges - kHedgeCost, std::memory_order_relaxed)) return true;
  }
  return false;
}

std::map<const Group*, std::string> GroupsInOneZone(const std::vector<std::shared_ptr<Group>>& groups) {
  std::set<std::string> zones;
  std::map<const Group*, std::string> found;
  for (const std::shared_ptr<Group>& group : groups) {
    std::set<std::string> of_group;
    const Replicas replicas = group->replicas();
    for (const std::shared_ptr<Replica>& replica : replicas) of_group.insert(replica->zone());
    if (replicas.size() >= 2 && of_group.size() == 1 && !of_group.begin()->empty()) {
      found.emplace(group.get(), *of_group.begin());
    }
    zones.merge(of_group);
  }
  zones.erase("");
  if (zones.size() < 2) found.clear();
  return found;
}

}  // namespace maxsim::cluster
