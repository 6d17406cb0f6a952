// Replicas that hold the same partitions: which one is asked, and how many calls the group may have.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "server/cluster/groups/latency_window.h"
#include "server/cluster/groups/replica.h"

namespace maxsim::cluster {

using Replicas = std::vector<std::shared_ptr<Replica>>;

// Returns the replica to ask: of those that are not in `tried`, the one that is neither ejected nor full, answers polls
// and has the fewest calls in flight; `turn` decides between equals. Where none is such, one that is not ejected; where
// all are, any: a replica that is left out is still better than no answer. Null where all were tried.
std::shared_ptr<Replica> ChooseReplica(const Replicas& replicas, absl::Span<const Replica* const> tried, absl::Time now,
                                       uint64_t turn);

// The class is thread-safe.
class Group {
 public:
  Group(std::string name, int max_calls_in_flight) : name_(std::move(name)), max_calls_(max_calls_in_flight) {}

  const std::string& name() const { return name_; }

  Replicas replicas() const;
  void SetReplicas(Replicas replicas);

  // Takes a place for a call; false where there is none. EndCall gives it back.
  bool TryBeginCall();
  void EndCall() { calls_in_flight_.fetch_sub(1, std::memory_order_relaxed); }
  int calls_in_flight() const { return calls_in_flight_.load(std::memory_order_relaxed); }
  int max_calls_in_flight() const { return max_calls_; }

  // How long answers took. Its percentile is when a second replica is asked.
  LatencyWindow& latencies() { return latencies_; }
  const LatencyWindow& latencies() const { return latencies_; }

  // A tenth of calls may ask a second replica before the first has answered. EarnHedge is called once a call, and
  // TakeHedge before a second replica is asked.
  void EarnHedge();
  bool TakeHedge();

  uint64_t NextTurn() { return turn_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // In tenths, so that ten calls earn one.
  static constexpr int kHedgeCost = 10;
  static constexpr int kMaxHedges = 10 * kHedgeCost;

  const std::string name_;
  const int max_calls_;
  std::atomic<int> calls_in_flight_{0};
  std::atomic<int> hedges_{kHedgeCost};
  std::atomic<uint64_t> turn_{0};
  LatencyWindow latencies_;
  mutable Mutex mutex_;
  Replicas replicas_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::cluster
