// Which servers a router has, and what they hold: applies the list of groups that GroupsWatcher reads, and asks every
// replica once a second what it has.
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
#include "server/observability/cluster_metrics.h"

namespace maxsim::cluster {

// The class is thread-safe.
class Membership {
 public:
  // `to_replicas` is how every replica is reached: its target does not count. `metrics` must outlive this. `resolve`
  // looks up names, and may still run when this is gone. Names are looked up, and the file is read, every
  // `watch_interval`.
  Membership(ClusterOptions options, client::ClientOptions to_replicas, ClusterMetrics* metrics,
             Resolve resolve = ResolveTarget, absl::Duration watch_interval = absl::Seconds(5));
  // Calls to replicas must have ended; connections are closed here.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Reads the groups and begins to ask. Does not wait for names: the replicas behind them come when they are looked up.
  // Errors name the key.
  absl::Status Start();

  // Ends asking. RefreshThen and Refresh wait for nothing from then on. Idempotent.
  void Stop();

  ClusterMetrics* metrics() const { return metrics_; }

  // What is known now; never null once Start was called.
  std::shared_ptr<const View> view() const;

  // Asks all replicas at once, and runs `then` when those that answer have, or half a second has passed; at once where
  // this is being destroyed.
  void RefreshThen(absl::AnyInvocable<void()> then);

  // Blocks as long as RefreshThen takes.
  void Refresh();

 private:
  struct Poll;
  void ApplyGroups(const std::vector<ResolvedGroup>& groups);
  Replicas ReplicasOf(const ResolvedGroup& wanted, const Replicas& before);
  std::shared_ptr<Replica> MakeReplica(const std::string& group, const std::string& target);
  void TakeGroups();
  void BeginPolls();
  absl::Status CheckInfo(const Group& group, const Replica& replica, const v1::GetInfoResponse& info) const;
  void OnPoll(const std::shared_ptr<Replica>& replica, const absl::Status& status,
              std::shared_ptr<const v1::GetInfoResponse> info);
  void PublishView();
  void Run();

  const ClusterOptions options_;
  const client::ClientOptions to_replicas_;
  const client::CallMetadata metadata_;
  ClusterMetrics* const metrics_;
  const Resolve resolve_;
  const absl::Duration watch_interval_;

  // The thread alone uses these once Start has returned.
  std::vector<std::shared_ptr<Group>> groups_;
  std::string groups_error_;  // that was logged last

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  std::set<const Replica*> polls_ ABSL_GUARDED_BY(mutex_);        // under way
  std::set<const Replica*> stale_polls_ ABSL_GUARDED_BY(mutex_);  // of these, those that began before the refresh
  bool poll_again_ ABSL_GUARDED_BY(mutex_) = false;               // a stale one has ended
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_groups_ ABSL_GUARDED_BY(mutex_) = false;                          // the watcher has read some
  std::vector<absl::AnyInvocable<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // for the polls that come next
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
  std::unique_ptr<GroupsWatcher> watcher_;
};

}  // namespace maxsim::cluster
