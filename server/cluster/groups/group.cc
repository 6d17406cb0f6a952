#include "server/cluster/groups/group.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace maxsim::cluster {

std::shared_ptr<Replica> ChooseReplica(const Replicas& replicas, absl::Span<const Replica* const> tried, absl::Time now,
                                       uint64_t turn) {
  // Reasons not to choose a replica, the strongest first. Tuples compare from left to right.
  using Cost = std::tuple<bool, bool, bool, int>;
  std::shared_ptr<Replica> best;
  Cost best_cost;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const std::shared_ptr<Replica>& replica = replicas[(i + turn) % replicas.size()];
    if (std::find(tried.begin(), tried.end(), replica.get()) != tried.end()) continue;
    const Cost cost(replica->health().is_ejected(now), !replica->poll_status().ok() || replica->is_silent(now),
                    replica->health().full_until() > now, replica->calls_in_flight());
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

}  // namespace maxsim::cluster
