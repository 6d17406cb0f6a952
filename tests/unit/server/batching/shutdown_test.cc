#include <thread>

#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using testing::HasSubstr;

class ShutdownTest : public SchedulerTest {};

TEST_F(ShutdownTest, AcceptedJobsFinishAndNewOnesAreRefused) {
  Start({.max_batch_queries = 1});
  OccupyLanes();
  for (int32_t number = 1; number <= 5; ++number) ASSERT_TRUE(Submit(number));
  std::thread shutdown([this] { EXPECT_EQ(scheduler_->Shutdown(absl::InfiniteFuture()), 0); });
  ASSERT_TRUE(Eventually([this] { return absl::IsUnavailable(Submit(MakeJob(600))); }));
  backend_.Open();
  shutdown.join();
  // All accepted jobs must be answered by now. (One of the jobs 600 may have been accepted before the shutdown began.)
  for (int32_t number = 1; number <= 5; ++number) {
    ASSERT_TRUE(Answered(number));
    EXPECT_TRUE(WaitFor(number).ok());
  }
  EXPECT_TRUE(Answered(1001));
  EXPECT_EQ(scheduler_->Shutdown(absl::Now()), 0);
  auto late = MakeJob(7);
  const absl::Status status = scheduler_->Submit(late);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("shutting down"));
  EXPECT_NE(late, nullptr);
}

TEST_F(ShutdownTest, WhatIsNotDoneAtTheDeadlineFailsAndIsCounted) {
  Start({.max_batch_queries = 1});
  OccupyLanes();
  for (int32_t number = 1; number <= 5; ++number) ASSERT_TRUE(Submit(number));
  std::thread opener([this] {
    // Jobs in the queue must fail at the deadline, although the lane is still blocked.
    for (int32_t number = 1; number <= 5; ++number) {
      EXPECT_EQ(WaitFor(number).code(), absl::StatusCode::kUnavailable);
    }
    backend_.Open();
  });
  // The running job is in its last call. The shutdown waits for that call, so that the job still gets its result.
  EXPECT_EQ(scheduler_->Shutdown(absl::Now() + absl::Milliseconds(20)), 5);
  opener.join();
  EXPECT_TRUE(Answered(1001));
  EXPECT_TRUE(WaitFor(1001).ok());
  EXPECT_EQ(scheduler_->Shutdown(absl::InfiniteFuture()), 0);
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"shutdown\"}"), HasSubstr(" 5"));
}

TEST_F(ShutdownTest, ABatchOfManyCallsEndsAfterTheOneThatRuns) {
  Start({});
  OccupyLanes();
  // Jobs with inline documents are scored with one call per query. So the job's two queries need two calls.
  auto job = MakeJob(1);
  job->queries.push_back(job->queries[0]);
  for (engine::JobQuery& query : job->queries) query.candidates = engine::Inline(test::SmallDocuments(2, 3));
  ASSERT_TRUE(Submit(std::move(job)).ok());
  backend_.OnTopK([this](absl::Span<const Query> queries) {
    if (queries[0].num_tokens == 1) backend_.Close();
    return absl::OkStatus();
  });
  backend_.Open();
  // The job's first call has closed the backend, so its second call blocks.
  ASSERT_TRUE(backend_.WaitForCalls(3));
  std::thread opener([this] {
    absl::SleepFor(absl::Milliseconds(100));
    backend_.OnTopK(nullptr);
    backend_.Open();
  });
  scheduler_->Shutdown(absl::Now() + absl::Milliseconds(10));
  opener.join();
  EXPECT_TRUE(Answered(1));
}

TEST_F(ShutdownTest, AnIdleSchedulerEndsAtOnce) {
  Start({}, 3);
  EXPECT_EQ(scheduler_->Shutdown(absl::InfiniteFuture()), 0);
}

TEST_F(ShutdownTest, HeldBackJobsAreScoredAtOnce) {
  Start({.max_batch_delay = absl::Seconds(3600)});
  ASSERT_TRUE(Submit(1));
  EXPECT_EQ(scheduler_->Shutdown(absl::InfiniteFuture()), 0);
  ASSERT_TRUE(Answered(1));
  EXPECT_TRUE(WaitFor(1).ok());
}

TEST_F(ShutdownTest, TheDestructorDrains) {
  Start({.max_batch_queries = 2}, 2);
  for (int32_t number = 1; number <= 50; ++number) ASSERT_TRUE(Submit(number));
  scheduler_ = nullptr;
  for (int32_t number = 1; number <= 50; ++number) {
    ASSERT_TRUE(Answered(number));
    EXPECT_TRUE(WaitFor(number).ok());
  }
}

TEST_F(ShutdownTest, TwoShutdownsAtOnceBothReturnWhenItIsOver) {
  Start({});
  OccupyLanes();
  ASSERT_TRUE(Submit(1));
  std::atomic<int64_t> failed{0};
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 2; ++idx) {
    threads.emplace_back([&] {
      failed += scheduler_->Shutdown(absl::Now() + absl::Milliseconds(10));
      EXPECT_TRUE(Answered(1));
    });
  }
  EXPECT_EQ(WaitFor(1).code(), absl::StatusCode::kUnavailable);
  backend_.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 1);
}

}  // namespace
}  // namespace maxsim::batching
