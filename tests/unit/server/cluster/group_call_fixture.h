// Calls a group of fake replicas. The test decides when and how each attempt to call a replica ends.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "gtest/gtest.h"
#include "server/cluster/groups/group_call.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/cluster/span_keeper.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {

class GroupCallTest : public testing::Test {
 protected:
  explicit GroupCallTest(int num_replicas = 3, int max_calls = 100, ZoneId own_zone = kNoZone)
      : group_(std::make_shared<Group>("g", max_calls, own_zone)) {
    Replicas replicas;
    for (int i = 0; i < num_replicas; ++i) {
      replicas.push_back(MakeReplica(absl::StrCat("localhost:", 1 + i)));
      Say(*replicas.back(), {});
    }
    group_->SetReplicas(std::move(replicas));
  }

  void Begin(bool may_hedge = false, CallRegistry* calls = nullptr) {
    const SendAttempt send = [this](Replica& replica, int attempt, const tracing::SpanParent& span,
                                    std::function<void(absl::Status)> done) {
      const MutexLock lock(&mutex_);
      traceparents_.push_back(span.traceparent());
      asked_.push_back(replica.target());
      ends_.push_back(std::move(done));
      return [this, attempt] {
        const MutexLock cancelling(&mutex_);
        cancelled_.push_back(attempt);
      };
    };
    StartGroupCall({.timer = &timer_, .calls = calls, .metrics = nullptr, .metadata = nullptr},
                   {group_, group_->replicas()},
                   {.deadline = deadline_,
                    .may_hedge = may_hedge,
                    .may_repeat = may_repeat_,
                    .expires = expires_,
                    .full_for_all = full_for_all_,
                    .cancelled = client_gone_,
                    .span = span_},
                   send, [this](const absl::Status& status, int attempt) {
                     status_ = status;
                     attempt_ = attempt;
                     if (!finished_.HasBeenNotified()) finished_.Notify();
                   });
  }

  // Sets the group's latency percentile to `time`.
  void Expect(absl::Duration time) {
    for (int i = 0; i < 100; ++i) group_->latencies().Add(time);
    group_->latencies().Turn(MonotonicNow(), 0.95);
  }

  std::vector<std::string> asked() {
    const MutexLock lock(&mutex_);
    return asked_;
  }
  std::vector<int> cancelled() {
    const MutexLock lock(&mutex_);
    return cancelled_;
  }

  // Ends an attempt.
  void End(size_t attempt, const absl::Status& status) {
    std::function<void(absl::Status)> end;
    {
      const MutexLock lock(&mutex_);
      end = ends_.at(attempt);
    }
    end(status);
  }

  void WaitForAttempts(size_t count) {
    test::Eventually([&] { return asked().size() >= count; });
    ASSERT_EQ(asked().size(), count);
  }

  static absl::Status Away() { return absl::UnavailableError("away"); }

  const std::shared_ptr<Group> group_;
  absl::Time deadline_ = MonotonicNow() + absl::Hours(1);
  Mutex mutex_;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void(absl::Status)>> ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> traceparents_ ABSL_GUARDED_BY(mutex_);
  tracing::SpanParent span_;
  bool may_repeat_ = true;
  absl::Time expires_ = absl::InfiniteFuture();
  bool full_for_all_ = true;
  std::shared_ptr<std::atomic<bool>> client_gone_;  // null: the call does not watch its client
  absl::Notification finished_;
  absl::Status status_;
  int attempt_ = -1;
  Timer timer_;
};

}  // namespace maxsim::cluster
