// A router with fake replicas: gRPC servers in this process that give the answers which the test chooses.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "client/status.h"
#include "gtest/gtest.h"
#include "server/cluster/calls/call_registry.h"
#include "server/cluster/calls/timer.h"
#include "server/cluster/groups/membership.h"
#include "server/cluster/router_scorer.h"
#include "server/observability/metrics.h"
#include "server/service/call/write_expiry.h"
#include "server/service/request/text_encoding.h"
#include "tests/support/fake_server.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {

using test::Eventually;

// A fake server of one part of the collection "c". The test can change what it answers to GetInfo at any time.
class FakeReplica {
 public:
  explicit FakeReplica(v1::CollectionInfo collection) {
    *said_.add_collections() = std::move(collection);
    server_ = std::make_unique<test::FakeServer>();
    server_->on_info = [this](v1::GetInfoResponse& answer) {
      Eventually([&] { return !silent; });
      if (away) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
      const MutexLock lock(&mutex_);
      answer = said_;
      if (tells_time_) {
        answer.mutable_clock()->set_id(service::ClockId());
        answer.mutable_clock()->set_now_us(absl::ToUnixMicros(MonotonicNow()));
      }
      return grpc::Status::OK;
    };
  }

  ~FakeReplica() { silent = false; }

  std::string target() const { return server_->target(); }
  test::FakeServer& server() { return *server_; }

  void Say(const v1::CollectionInfo& collection) {
    const MutexLock lock(&mutex_);
    *said_.mutable_collections(0) = collection;
  }
  v1::CollectionInfo said() {
    const MutexLock lock(&mutex_);
    return said_.collections(0);
  }

  // Sets whether the replica tells the time on its clock.
  void TellTime(bool tells) { tells_time_ = tells; }

  // Stops the replica's server. Afterwards no server listens at the target.
  void End() { server_.reset(); }

  std::atomic<bool> away{false};    // the replica answers polls with an error
  std::atomic<bool> silent{false};  // the replica does not answer polls

 private:
  std::atomic<bool> tells_time_{false};
  Mutex mutex_;
  v1::GetInfoResponse said_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<test::FakeServer> server_;
};

// Makes groups of fake replicas. If `is_live`, the collection accepts writes, which a message stream orders.
class RouterTest : public testing::Test {
 protected:
  explicit RouterTest(int num_groups = 2, int num_replicas = 2, bool is_live = false) {
    for (int group = 0; group < num_groups; ++group) {
      GroupOptions options{.name = absl::StrCat("g", group), .targets = {}};
      for (int replica = 0; replica < num_replicas; ++replica) {
        v1::CollectionInfo info = InfoOf("c", 1, collection::PartitionOf(group, num_groups), 1);
        if (is_live) info.mutable_live()->set_log(kStreamLog);
        auto made = std::make_unique<FakeReplica>(info);
        options.targets.push_back(made->target());
        replicas_.push_back(std::move(made));
      }
      options_.groups.push_back(std::move(options));
    }
    num_replicas_ = num_replicas;
    options_.poll_interval = absl::Milliseconds(20);
  }
  ~RouterTest() override {
    if (membership_ != nullptr) membership_->Stop();
    calls_.Close();
  }

  void Start() {
    membership_ = std::make_unique<Membership>(options_, client::ClientOptions(), &metrics_.cluster());
    ASSERT_TRUE(membership_->Start().ok());
    for (int group = 0; group < static_cast<int>(options_.groups.size()); ++group) {
      for (int index = 0; index < num_replicas_; ++index) {
        ASSERT_TRUE(Eventually([&] { return seen(group, index)->poll_status().ok(); }));
      }
    }
    membership_->Refresh();
  }

  FakeReplica& replica(int group, int index) {
    return *replicas_[static_cast<size_t>(group) * static_cast<size_t>(num_replicas_) + static_cast<size_t>(index)];
  }
  std::shared_ptr<Replica> seen(int group, int index) {
    return membership_->view()->groups()[static_cast<size_t>(group)]->replicas()[static_cast<size_t>(index)];
  }

  RouterDependencies dependencies() {
    return {.membership = membership_.get(),
            .metrics = &metrics_,
            .environment = {.timer = &timer_, .calls = &calls_, .metrics = &metrics_.cluster(), .metadata = nullptr},
            .limits = {},
            .timeout = absl::FromChrono(test::kTestLimit)};
  }

  // Makes an asynchronous call and waits for its answer. `start` is called with the callback that takes the answer.
  template <typename Response, typename Start>
  static absl::StatusOr<Response> Wait(Start start) {
    struct Waiter {
      absl::Notification done;
      absl::StatusOr<Response> response = absl::UnknownError("no answer");
    };
    auto waiter = std::make_shared<Waiter>();
    start([waiter](absl::StatusOr<Response> response) {
      waiter->response = std::move(response);
      waiter->done.Notify();
    });
    waiter->done.WaitForNotification();
    return std::move(waiter->response);
  }

  ClusterOptions options_;
  std::vector<std::unique_ptr<FakeReplica>> replicas_;
  int num_replicas_ = 0;
  Metrics metrics_;
  Timer timer_;
  CallRegistry calls_;
  service::TextEncoding texts_;
  std::unique_ptr<Membership> membership_;
};

// Returns an id whose slot belongs to partition `partition` of `count`. Leaves out the first `skip` ids like that.
inline std::string IdOf(int partition, int count, int skip = 0) {
  for (int i = 0;; ++i) {
    std::string id = absl::StrCat("doc-", i);
    if (collection::PartitionOf(partition, count).contains(collection::SlotOf(std::string_view(id))) && skip-- == 0) {
      return id;
    }
  }
}

}  // namespace maxsim::cluster
