// Which servers a router has, and what they hold: reads the list of groups, resolves names, and asks every replica once
// a second what it has.
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
#include "server/cluster/cluster_options.h"
#include "server/cluster/group.h"
#include "server/cluster/view.h"
#include "server/observability/cluster_metrics.h"

namespace maxsim::cluster {

// The class is thread-safe.
class Membership {
 public:
  // `to_replicas` is how every replica is reached: its target does not count. `metrics` must outlive this.
  Membership(ClusterOptions options, client::ClientOptions to_replicas, ClusterMetrics* metrics);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Reads the groups and begins to ask. Errors name the key.
  absl::Status Start();

  // Ends asking. RefreshThen and Refresh wait for nothing from then on. Idempotent.
  void Stop();

  // What is known now; never null once Start was called.
  std::shared_ptr<const View> view() const;

  // Asks all replicas at once, and runs `then` when those that answer have, or half a second has passed; at once where
  // this is being destroyed.
  void RefreshThen(absl::AnyInvocable<void()> then);

  // Blocks as long as RefreshThen takes.
  void Refresh();

 private:
  struct Poll;
  void ApplyGroups(const std::vector<GroupOptions>& groups);
  std::shared_ptr<Replica> MakeReplica(const std::string& group, const std::string& target);
  void WatchGroups();
  void BeginPolls();
  void OnPoll(const std::shared_ptr<Replica>& replica, const absl::Status& status,
              std::shared_ptr<const v1::GetInfoResponse> info);
  void PublishView();
  void Run();

  const ClusterOptions options_;
  const client::ClientOptions to_replicas_;
  const client::CallMetadata metadata_;
  ClusterMetrics* const metrics_;

  // The thread alone uses these once Start has returned.
  std::vector<std::shared_ptr<Group>> groups_;
  std::string groups_error_;  // that was logged last
  absl::Time resolved_ = absl::InfinitePast();

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  std::set<const Replica*> polls_ ABSL_GUARDED_BY(mutex_);        // under way
  std::set<const Replica*> stale_polls_ ABSL_GUARDED_BY(mutex_);  // of these, those that began before the refresh
  bool poll_again_ ABSL_GUARDED_BY(mutex_) = false;               // a stale one has ended
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // for the polls that come next
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Returns the targets of the addresses of "dns:///HOST:PORT", sorted; the target itself for any other.
// UNAVAILABLE where the name has no address now.
absl::StatusOr<std::vector<std::string>> ResolveTarget(const std::string& target);

}  // namespace maxsim::cluster
