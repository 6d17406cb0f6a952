// Tests, in virtual time, which jobs are admitted under overload: by their expected queue time and by their client's
// fair share.
#include <algorithm>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/batching/scheduler.h"
#include "tests/unit/server/batching/virtual_scheduler.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::HasSubstr;

constexpr uint64_t kGreedy = 1;
constexpr uint64_t kModest = 2;

// The lane scores one token pair per millisecond.
class QueueTimeTest : public testing::Test {
 protected:
  void Start(const SchedulerOptions& options) { scheduler_ = std::make_unique<VirtualScheduler>(options); }

  // Measures the rate, and then submits a job that keeps the lane busy for `busy`.
  void StartMeasured(const SchedulerOptions& options, absl::Duration busy = absl::Hours(1)) {
    Start(options);
    scheduler_->MeasureRate();
    ASSERT_TRUE(scheduler_->Submit(3, static_cast<uint64_t>(absl::ToInt64Milliseconds(busy))).ok());
    scheduler_->Run(absl::Milliseconds(1));
    ASSERT_EQ(scheduler_->stats().running_jobs, 1);
  }

  std::vector<absl::Duration> QueueTimesOf(uint64_t client) const {
    std::vector<absl::Duration> times;
    for (const VirtualScheduler::Answer& answer : scheduler_->answers()) {
      if (answer.client == client && answer.status.ok()) times.push_back(answer.in_queue);
    }
    std::sort(times.begin(), times.end());
    return times;
  }

  std::unique_ptr<VirtualScheduler> scheduler_;
};

TEST_F(QueueTimeTest, ARequestThatWouldWaitTooLongIsRefusedAndSaysSo) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)}, absl::Milliseconds(10));
  ASSERT_TRUE(scheduler_->Submit(1, 1000).ok()) << "an empty queue takes any job";
  absl::Status status = scheduler_->Submit(1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("this request would wait for about 1.1s"));
  EXPECT_THAT(status.message(), HasSubstr("more than 60ms (batching.max_queue_time)"));
  EXPECT_TRUE(TakeQueueFullMark(status));
  EXPECT_FALSE(TakeQueueFullMark(status));
  EXPECT_THAT(scheduler_->Series("maxsim_rejections_total{reason=\"queue_time\"}"), HasSubstr(" 1"));
  EXPECT_THAT(scheduler_->Series("maxsim_queue_clients"), HasSubstr(" 1"));
}

TEST_F(QueueTimeTest, WhatTheLanesHaveLeftCountsTowardsTheWait) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)}, absl::Milliseconds(100));
  ASSERT_TRUE(scheduler_->Submit(1, 1).ok()) << "an empty queue takes any job";
  EXPECT_FALSE(scheduler_->Submit(1, 1).ok()) << "100 ms are left";
  scheduler_->Run(absl::Milliseconds(50));
  EXPECT_TRUE(scheduler_->Submit(1, 1).ok()) << "50 ms are left";
}

TEST_F(QueueTimeTest, AnAcceptedRequestLeavesUnscoredOnceItHasWaitedForTheBound) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)});
  ASSERT_TRUE(scheduler_->Submit(kGreedy, 1).ok());
  scheduler_->Run(absl::Milliseconds(60));
  EXPECT_TRUE(scheduler_->answers().empty());
  scheduler_->Run(absl::Milliseconds(2));
  ASSERT_EQ(scheduler_->answers().size(), 1u);
  absl::Status status = scheduler_->answers()[0].status;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("this request has waited for 60ms (batching.max_queue_time)"));
  EXPECT_TRUE(TakeQueueFullMark(status)) << "its client is told when to come back";
  EXPECT_EQ(scheduler_->stats().queued_jobs, 0);
  EXPECT_THAT(scheduler_->Series("maxsim_rejections_total{reason=\"queue_time\"}"), HasSubstr(" 1"));
}

TEST_F(QueueTimeTest, WithoutABoundARequestWaitsForAsLongAsItTakes) {
  StartMeasured({.max_queue_time = absl::ZeroDuration()}, absl::Minutes(10));
  ASSERT_TRUE(scheduler_->Submit(kGreedy, 1).ok());
  scheduler_->Run(absl::Minutes(11));
  ASSERT_EQ(scheduler_->answers().size(), 2u);
  EXPECT_TRUE(scheduler_->answers()[1].status.ok());
}

TEST_F(QueueTimeTest, AClientWithLittleWaitingIsAcceptedBesideAFlood) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)}, absl::Milliseconds(10));
  ASSERT_TRUE(scheduler_->Submit(1, 1000).ok());
  EXPECT_FALSE(scheduler_->Submit(1, 2).ok());
  EXPECT_TRUE(scheduler_->Submit(2, 3).ok()) << "a turn of the other is as long as its own";
  EXPECT_TRUE(scheduler_->Submit(1, 4, Priority::kHigh).ok()) << "nothing waits before it";
  EXPECT_FALSE(scheduler_->Submit(2, 5, Priority::kLow).ok());
  EXPECT_EQ(scheduler_->stats().queued_clients, 2);
}

TEST_F(QueueTimeTest, ADeadlineThatTheQueueOutlastsIsRefusedAtOnce) {
  StartMeasured({.max_queue_time = absl::ZeroDuration()}, absl::Milliseconds(10));
  ASSERT_TRUE(scheduler_->Submit(1, 3000).ok());
  ASSERT_TRUE(scheduler_->Submit(1, 6).ok()) << "there is no bound";
  absl::Status status = scheduler_->Submit(1, 5, Priority::kNormal, scheduler_->now() + absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("but its deadline is 1s away"));
  EXPECT_TRUE(TakeQueueFullMark(status));
  EXPECT_TRUE(scheduler_->Submit(1, 7, Priority::kNormal, scheduler_->now() + absl::Hours(1)).ok());
  EXPECT_THAT(scheduler_->Series("maxsim_rejections_total{reason=\"queue_time\"}"), HasSubstr(" 1"));
}

TEST_F(QueueTimeTest, NothingIsRefusedForItsTimeBeforeARateIsKnown) {
  Start({.max_queue_time = absl::Nanoseconds(1)});
  for (int idx = 0; idx < 20; ++idx) ASSERT_TRUE(scheduler_->Submit(kGreedy, 1000).ok());
}

TEST_F(QueueTimeTest, AFullQueueMakesRoomForAClientBelowItsShare) {
  Start({.max_queue_jobs = 4, .max_queue_time = absl::ZeroDuration(), .max_batch_queries = 1});
  ASSERT_TRUE(scheduler_->Submit(3, 10).ok());
  scheduler_->Run(absl::Milliseconds(1));
  for (uint64_t work = 1; work <= 4; ++work) ASSERT_TRUE(scheduler_->Submit(kGreedy, work).ok());
  EXPECT_FALSE(scheduler_->Submit(kGreedy, 5).ok()) << "the one that fills it";
  ASSERT_TRUE(scheduler_->Submit(kModest, 6).ok());
  EXPECT_EQ(scheduler_->stats().queued_jobs, 4);
  ASSERT_TRUE(scheduler_->Submit(kModest, 7).ok());
  EXPECT_FALSE(scheduler_->Submit(kModest, 8).ok()) << "beyond half of it";
  scheduler_->Run(absl::Seconds(1));
  EXPECT_THAT(scheduler_->Series("maxsim_rejections_total{reason=\"displaced\"}"), HasSubstr(" 2"));
  EXPECT_THAT(scheduler_->Series("maxsim_rejections_total{reason=\"queue_full\"}"), HasSubstr(" 2"));
  EXPECT_EQ(QueueTimesOf(kGreedy).size(), 2u);
  EXPECT_EQ(QueueTimesOf(kModest).size(), 2u);
}

// For two minutes, one client sends ten times as much as another. Together they send twice as much as can be scored.
class OverloadTest : public QueueTimeTest {
 protected:
  static constexpr absl::Duration kBound = absl::Seconds(1);
  static constexpr uint64_t kWork = 40;  // the lane can do 25 such jobs a second, and 50 arrive

  void Overload() {
    Start({.max_queue_time = kBound});
    scheduler_->MeasureRate();
    for (int idx = 0; idx < 120 * 50; ++idx) {
      const uint64_t client = idx % 11 == 0 ? kModest : kGreedy;
      absl::Status status = scheduler_->Submit(client, kWork);
      if (!status.ok()) {
        EXPECT_TRUE(TakeQueueFullMark(status)) << status;
        ++refused_[client];
      }
      ++sent_[client];
      scheduler_->Run(absl::Milliseconds(20));
    }
    scheduler_->Run(2 * kBound);
  }

  std::map<uint64_t, int> sent_;
  std::map<uint64_t, int> refused_;
};

TEST_F(OverloadTest, AcceptedRequestsKeepTheirTimeAndTheLaneStaysBusy) {
  Overload();
  size_t scored = 0;
  size_t dropped = 0;
  for (const VirtualScheduler::Answer& answer : scheduler_->answers()) {
    if (answer.status.ok()) {
      ++scored;
      EXPECT_LE(answer.in_queue, kBound);
      EXPECT_LE(answer.total, 2 * kBound) << "a batch is no longer than the bound";
    } else {
      ++dropped;
      EXPECT_LE(answer.total, kBound + absl::Milliseconds(2));
    }
  }
  EXPECT_GT(scored, 120u * 25 * 98 / 100);
  EXPECT_LT(dropped, scored / 8) << "most that would wait for longer are refused when they come";
}

TEST_F(OverloadTest, AClientBelowItsShareIsServedBeforeTheOneThatFloods) {
  Overload();
  const std::vector<absl::Duration> greedy = QueueTimesOf(kGreedy);
  const std::vector<absl::Duration> modest = QueueTimesOf(kModest);
  EXPECT_EQ(modest.size(), static_cast<size_t>(sent_[kModest])) << "it asks for less than its share";
  EXPECT_LT(modest[modest.size() / 2], greedy[greedy.size() / 2] / 2);
  EXPECT_GT(refused_[kGreedy], sent_[kGreedy] / 3);
}

// A refused client retries after the delay that the refusal names. Although others go on sending, each client must be
// accepted after at most 40 tries.
TEST_F(QueueTimeTest, TheRetryDelayWorks) {
  Start({.max_queue_time = absl::Milliseconds(500)});
  scheduler_->MeasureRate();
  constexpr size_t kClients = 40;  // twice as many as the limit admits
  struct Client {
    absl::Time next;
    int tries = 0;
    size_t answered = 0;
    bool waits = false;
  };
  std::vector<Client> clients(kClients, {.next = scheduler_->now()});
  size_t seen = 0;
  int most_tries = 0;
  double jitter = -1;
  for (int step = 0; step < 60'000; ++step) {
    for (size_t idx = 0; idx < kClients; ++idx) {
      Client& client = clients[idx];
      if (client.waits || client.answered == 10 || scheduler_->now() < client.next) continue;
      most_tries = std::max(most_tries, ++client.tries);
      client.waits = scheduler_->Submit(idx + 10, 25).ok();
      jitter = jitter > 0.9 ? -1 : jitter + 0.1;
      client.next = scheduler_->now() + scheduler_->RetryDelay(jitter);
    }
    scheduler_->Run(absl::Milliseconds(1));
    for (; seen < scheduler_->answers().size(); ++seen) {
      const VirtualScheduler::Answer& answer = scheduler_->answers()[seen];
      Client& client = clients[answer.client - 10];
      client.waits = false;
      if (!answer.status.ok()) continue;
      ++client.answered;
      client.tries = 0;
    }
  }
  for (const Client& client : clients) EXPECT_EQ(client.answered, 10u);
  EXPECT_LE(most_tries, 40);
}

// One of two clients floods the queue. The other's requests must be scored almost as fast as if it were alone.
TEST_F(QueueTimeTest, AFloodDoesNotDelayAnotherClient) {
  StartMeasured({.max_queue_time = absl::ZeroDuration(), .max_batch_queries = 1}, absl::Milliseconds(2));
  for (int idx = 0; idx < 300; ++idx) ASSERT_TRUE(scheduler_->Submit(kGreedy, 2).ok());
  for (uint64_t work = 11; work <= 15; ++work) ASSERT_TRUE(scheduler_->Submit(kModest, work).ok());
  scheduler_->Run(absl::Seconds(2));
  // The second client asks for 65 token pairs of work. With fair turns, at most 65 token pairs of the first client are
  // scored meanwhile, and each client may be one turn ahead.
  EXPECT_LT(QueueTimesOf(kModest).back(), absl::Milliseconds(2 + 65 + 65 + 2 * 15 + 10));
}

TEST_F(QueueTimeTest, ABatchIsNoLongerThanTheBoundAndHalfAsLongWhileSeveralWait) {
  for (const size_t num_clients : {1, 2}) {
    Start({.max_queue_time = absl::Milliseconds(100)});
    scheduler_->MeasureRate();
    ASSERT_TRUE(scheduler_->Submit(3, 5).ok());
    scheduler_->Run(absl::Milliseconds(1));
    for (uint64_t idx = 0; idx < 9; ++idx) ASSERT_TRUE(scheduler_->Submit(1 + idx % num_clients, 10).ok());
    scheduler_->Run(absl::Milliseconds(6));
    EXPECT_LE(scheduler_->stats().running_jobs, num_clients == 1 ? 9 : 5);
    EXPECT_GE(scheduler_->stats().running_jobs, num_clients == 1 ? 9 : 4) << "the measured rate is a little lower";
  }
}

TEST_F(QueueTimeTest, AJobOfTheServerItselfWaitsForAsLongAsItTakes) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)}, absl::Milliseconds(1000));
  ASSERT_TRUE(scheduler_->Submit(kModest, 1).ok()) << "an empty queue takes any job";
  ASSERT_FALSE(scheduler_->Submit(kGreedy, 1).ok()) << "a client's job is refused";
  ASSERT_TRUE(scheduler_->Submit(kGreedy, 1, Priority::kNormal, absl::InfiniteFuture(), true).ok());
  scheduler_->Run(absl::Milliseconds(999));
  ASSERT_EQ(scheduler_->answers().size(), 1u);
  EXPECT_EQ(scheduler_->answers()[0].client, kModest) << "a client's job is dropped";
  scheduler_->Run(absl::Milliseconds(10));
  ASSERT_EQ(scheduler_->answers().size(), 3u);
  EXPECT_EQ(scheduler_->answers()[2].client, kGreedy);
  EXPECT_TRUE(scheduler_->answers()[2].status.ok()) << scheduler_->answers()[2].status;
}

TEST_F(QueueTimeTest, TheDelayOfABatchTakesNoMoreThanHalfOfTheTimeThatAJobMayWait) {
  Start({.max_queue_time = absl::Seconds(10), .max_batch_delay = absl::Hours(1)});
  ASSERT_TRUE(scheduler_->Submit(1, 1, Priority::kNormal, scheduler_->now() + absl::Seconds(4)).ok());
  scheduler_->Run(absl::Milliseconds(1999));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 1);
  scheduler_->Run(absl::Milliseconds(10));
  ASSERT_EQ(scheduler_->answers().size(), 1u);
  EXPECT_TRUE(scheduler_->answers()[0].status.ok());
  ASSERT_TRUE(scheduler_->Submit(1, 1).ok());
  scheduler_->Run(absl::Milliseconds(4999));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 1);
  scheduler_->Run(absl::Milliseconds(10));
  ASSERT_EQ(scheduler_->answers().size(), 2u);
  EXPECT_TRUE(scheduler_->answers()[1].status.ok());
}

}  // namespace
}  // namespace maxsim::batching
