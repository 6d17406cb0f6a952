// Tests admission by time and by share: who may wait when there is more to do than can be done.
#include <algorithm>
#include <thread>

#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::HasSubstr;

class QueueTimeTest : public SchedulerTest {
 protected:
  // Makes the backend take `per_token` for every query token.
  void TakeTime(absl::Duration per_token) {
    backend_.OnTopK([per_token](absl::Span<const Query> queries) {
      int64_t tokens = 0;
      for (const Query& query : queries) tokens += query.num_tokens;
      absl::SleepFor(per_token * tokens);
      return absl::OkStatus();
    });
  }

  // Starts with a measured rate of about one query token a millisecond (fewer on a busy machine), and holds the lane.
  void StartMeasured(SchedulerOptions options) {
    Start(options);
    TakeTime(absl::Milliseconds(1));
    for (int idx = 0; idx < 3; ++idx) {
      ASSERT_TRUE(Submit(100 + idx));
      ASSERT_TRUE(WaitFor(100 + idx).ok());
    }
    OccupyLanes();
  }

  absl::Status SubmitFor(uint64_t client, int32_t number, Priority priority = Priority::kNormal,
                         absl::Time deadline = absl::InfiniteFuture()) {
    auto job = MakeJob(number);
    job->client = client;
    job->priority = priority;
    job->deadline = deadline;
    return Submit(std::move(job));
  }
};

TEST_F(QueueTimeTest, ARequestThatWouldWaitTooLongIsRefusedAndSaysSo) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)});
  ASSERT_TRUE(SubmitFor(1, 1000).ok()) << "an empty queue takes any job";
  absl::Status status = SubmitFor(1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("this request would wait for about "));
  EXPECT_THAT(status.message(), HasSubstr("at most 60ms (batching.max_queue_time)"));
  EXPECT_TRUE(TakeQueueFullMark(status));
  EXPECT_FALSE(TakeQueueFullMark(status));
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"queue_time\"}"), HasSubstr(" 1"));
  EXPECT_THAT(Series("maxsim_queue_clients"), HasSubstr(" 1"));
  backend_.Open();
  EXPECT_TRUE(WaitFor(1000).ok());
}

TEST_F(QueueTimeTest, AClientWithLittleWaitingIsAcceptedBesideAFlood) {
  StartMeasured({.max_queue_time = absl::Milliseconds(60)});
  ASSERT_TRUE(SubmitFor(1, 1000).ok());
  EXPECT_FALSE(SubmitFor(1, 2).ok());
  EXPECT_TRUE(SubmitFor(2, 3).ok()) << "a turn of the other is as long as its own";
  EXPECT_TRUE(SubmitFor(1, 4, Priority::kHigh).ok()) << "nothing waits before it";
  EXPECT_FALSE(SubmitFor(2, 5, Priority::kLow).ok());
  EXPECT_EQ(scheduler_->stats().queued_clients, 2);
  backend_.Open();
  EXPECT_TRUE(WaitFor(3).ok());
  EXPECT_TRUE(WaitFor(1000).ok());
}

TEST_F(QueueTimeTest, ADeadlineThatTheQueueOutlastsIsRefusedAtOnce) {
  StartMeasured({.max_queue_time = absl::ZeroDuration()});
  ASSERT_TRUE(SubmitFor(1, 3000).ok());
  ASSERT_TRUE(SubmitFor(1, 6).ok()) << "there is no bound";
  absl::Status status = SubmitFor(1, 5, Priority::kNormal, absl::Now() + absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("and its deadline is "));
  EXPECT_TRUE(TakeQueueFullMark(status));
  EXPECT_TRUE(SubmitFor(1, 7, Priority::kNormal, absl::Now() + absl::Hours(1)).ok());
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"queue_time\"}"), HasSubstr(" 1"));
  backend_.OnTopK([](absl::Span<const Query>) { return absl::OkStatus(); });
  backend_.Open();
  EXPECT_TRUE(WaitFor(7).ok());
}

TEST_F(QueueTimeTest, NothingIsRefusedForItsTimeBeforeARateIsKnown) {
  Start({.max_queue_time = absl::Nanoseconds(1)});
  OccupyLanes();
  for (int32_t number = 1; number < 20; ++number) ASSERT_TRUE(Submit(number));
  backend_.Open();
  EXPECT_TRUE(WaitFor(19).ok());
}

TEST_F(QueueTimeTest, AFullQueueMakesRoomForAClientBelowItsShare) {
  Start({.max_queue_jobs = 4});
  OccupyLanes();
  for (int32_t number = 1; number <= 4; ++number) ASSERT_TRUE(SubmitFor(1, number).ok());
  EXPECT_EQ(SubmitFor(1, 5).code(), absl::StatusCode::kResourceExhausted) << "the one that fills it";
  ASSERT_TRUE(SubmitFor(2, 6).ok());
  absl::Status displaced = WaitFor(4);
  EXPECT_EQ(displaced.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(TakeQueueFullMark(displaced));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 4);
  ASSERT_TRUE(SubmitFor(2, 7).ok());
  EXPECT_EQ(SubmitFor(2, 8).code(), absl::StatusCode::kResourceExhausted) << "beyond half of it";
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"displaced\"}"), HasSubstr(" 2"));
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"queue_full\"}"), HasSubstr(" 2"));
  backend_.Open();
  for (const int32_t number : {1, 2, 6, 7}) EXPECT_TRUE(WaitFor(number).ok()) << number;
}

// For some seconds, jobs come at twice the rate that the backend can do. What is accepted waits about as long as the
// bound says, not as long as the overload lasts; some jobs are refused, and none is lost.
TEST_F(QueueTimeTest, UnderTwiceTheCapacityAcceptedJobsKeepTheirTime) {
  constexpr absl::Duration kBound = absl::Milliseconds(100);
  constexpr absl::Duration kRun = absl::Seconds(3);
  Start({.max_queue_time = kBound, .max_batch_queries = 4});
  TakeTime(absl::Milliseconds(1));
  ASSERT_TRUE(Submit(5));
  ASSERT_TRUE(WaitFor(5).ok());
  Mutex mutex;
  std::vector<absl::Duration> waits;
  int accepted = 0;
  int rejected = 0;
  const absl::Time begin = absl::Now();
  // Jobs have five tokens each: 200 of them a second can be done, and 400 come.
  for (int idx = 0; absl::Now() - begin < kRun; ++idx) {
    auto job = MakeJob(5);
    job->done = [&](absl::StatusOr<engine::JobResult> result) {
      const MutexLock lock(&mutex);
      ASSERT_TRUE(result.ok()) << result.status();
      waits.push_back(result->queue_time);
    };
    absl::Status status = scheduler_->Submit(job);
    accepted += status.ok() ? 1 : 0;
    rejected += status.ok() ? 0 : 1;
    EXPECT_TRUE(status.ok() || TakeQueueFullMark(status)) << status;
    absl::SleepFor(begin + idx * absl::Microseconds(2500) - absl::Now());
  }
  scheduler_->Shutdown(absl::InfiniteFuture());
  ASSERT_EQ(static_cast<int>(waits.size()), accepted);
  EXPECT_GT(accepted, 100);
  EXPECT_GT(rejected, accepted / 4);
  std::sort(waits.begin(), waits.end());
  // The batch that runs adds to the bound, and so does a machine that is busy with other things.
  EXPECT_LT(waits[waits.size() * 99 / 100], 4 * kBound);
  EXPECT_GT(waits[waits.size() / 2], kBound / 8) << "it was no overload";
}

// A client that is refused, and comes back when it is told to, gets in within a few tries while others go on.
TEST_F(QueueTimeTest, TheRetryDelayWorks) {
  Start({.max_queue_time = absl::Milliseconds(50), .max_batch_queries = 4});
  TakeTime(absl::Microseconds(500));
  ASSERT_TRUE(Submit(4));
  ASSERT_TRUE(WaitFor(4).ok());
  constexpr int kClients = 40;  // twice as many as fit the bound: each job takes 2 ms
  std::atomic<int> answered{0};
  std::atomic<int> most_tries{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&] {
      for (int request = 0; request < 10; ++request) {
        for (int tries = 1;; ++tries) {
          auto job = MakeJob(4);
          Mutex mutex;
          ConditionVariable ready;
          bool done = false;
          job->done = [&](absl::StatusOr<engine::JobResult> result) {
            EXPECT_TRUE(result.ok()) << result.status();
            const MutexLock lock(&mutex);
            done = true;
            ready.NotifyOne();
          };
          if (scheduler_->Submit(job).ok()) {
            MutexLock lock(&mutex);
            while (!done) ready.Wait(lock);
            ++answered;
            int most = most_tries;
            while (tries > most && !most_tries.compare_exchange_weak(most, tries)) {
            }
            break;
          }
          absl::SleepFor(scheduler_->RetryDelay());
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, kClients * 10);
  EXPECT_LE(most_tries, 40);
}

// One of two clients floods the queue; the other's requests are scored about as if it were alone.
TEST_F(QueueTimeTest, AFloodDoesNotDelayAnotherClient) {
  Start({.max_queue_time = absl::ZeroDuration(), .max_batch_queries = 1});
  OccupyLanes();
  for (int idx = 0; idx < 300; ++idx) ASSERT_TRUE(SubmitFor(1, 2).ok());
  for (int32_t number = 11; number <= 15; ++number) ASSERT_TRUE(SubmitFor(2, number).ok());
  backend_.Open();
  for (int32_t number = 11; number <= 15; ++number) ASSERT_TRUE(WaitFor(number).ok());
  const std::vector<std::vector<int32_t>> order = Batches(0);
  const auto last = std::find(order.begin(), order.end(), std::vector<int32_t>{15});
  ASSERT_NE(last, order.end());
  // Before that job, the second client has 65 tokens, the first has as many, and each may have one turn more.
  EXPECT_LT(last - order.begin(), 1 + 5 + (65 + 2 * 15) / 2 + 1);
}

}  // namespace
}  // namespace maxsim::batching
