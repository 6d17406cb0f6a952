// Knows which servers a router has and what they hold. Applies the list of groups that GroupsWatcher reads, and polls
// every replica once per cluster.poll_interval for what it holds.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/grpc_support.h"
#include "client/options.h"
#include "server/cluster/groups/cluster_options.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/groups_watcher.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/groups/view_reporter.h"
#include "server/cluster/observed/lag.h"
#include "server/observability/cluster_metrics.h"

namespace maxsim::cluster {

// The class is thread-safe.
class Membership {
 public:
  // `to_replicas` says how to connect to replicas; its target is ignored. `metrics` must outlive the object. `resolve`
  // looks up names, and may still run after the object is destroyed. Every `watch_interval`, a thread rereads the file
  // of groups, if there is one, and looks up the names again.
  Membership(ClusterOptions options, client::ClientOptions to_replicas, ClusterMetrics* metrics,
             Resolve resolve = ResolveTarget, absl::Duration watch_interval = absl::Seconds(5));
  // Closes the connections. All calls to replicas must have ended.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Reads the groups and starts polling. Does not wait for name look-ups: targets that are names get their replicas
  // once they are looked up. Errors name the configuration key.
  absl::Status Start();

  // Stops polling. After that, RefreshThen and Refresh do not wait. Idempotent.
  void Stop();

  ClusterMetrics* metrics() const { return metrics_; }

  // Returns the newest view; never null once Start was called.
  std::shared_ptr<const View> view() const;

  // Polls all replicas now. Runs `then` when every poll has ended, or after half a second at the latest. If Stop has
  // been called, runs `then` immediately.
  void RefreshThen(absl::AnyInvocable<void()> then);

  // Polls all replicas as RefreshThen does, and blocks until `then` would run.
  void Refresh();

 private:
  struct Poll;
  void ApplyGroups(const std::vector<ResolvedGroup>& groups);
  Replicas ReplicasOf(const ResolvedGroup& wanted, const Replicas& before);
  std::shared_ptr<Replica> MakeReplica(const std::string& group, const std::string& target);
  void TakeGroups();
  void BeginPolls();
  absl::Status CheckInfo(const Group& group, const Replica& replica, const v1::GetInfoResponse& info) const;
  void OnPoll(const std::shared_ptr<Replica>& replica, absl::Time asked, const absl::Status& status,
              std::shared_ptr<const v1::GetInfoResponse> info);
  void PublishView();
  void Run();

  const ClusterOptions options_;
  const client::ClientOptions to_replicas_;
  const client::CallMetadata metadata_;
  ClusterMetrics* const metrics_;
  const Resolve resolve_;
  const absl::Duration watch_interval_;

  // Used only by thread_ once Start has returned.
  std::vector<std::shared_ptr<Group>> groups_;
  std::string groups_error_;  // the last one that was logged
  LagTracker lags_;
  ViewReporter reporter_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  std::set<const Replica*> polls_ ABSL_GUARDED_BY(mutex_);        // replicas with a poll in progress
  std::set<const Replica*> stale_polls_ ABSL_GUARDED_BY(mutex_);  // those polled since before the current refresh
  bool poll_again_ ABSL_GUARDED_BY(mutex_) = false;               // a poll of stale_polls_ has ended
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_groups_ ABSL_GUARDED_BY(mutex_) = false;                          // the watcher has read the list
  std::vector<absl::AnyInvocable<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // callbacks for the next refresh
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::unique_ptr<GroupsWatcher> watcher_;
};

}  // namespace maxsim::cluster
