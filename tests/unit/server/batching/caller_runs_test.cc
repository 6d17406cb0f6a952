// Tests jobs that the submitting thread scores itself.
#include <future>
#include <thread>

#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

class CallerRunsTest : public SchedulerTest {
 protected:
  // Scores a job with 4,000 times the work of job 1. The scheduler then expects job 1 to take almost no time.
  void KnowTheRate() {
    ASSERT_TRUE(Submit(4000));
    ASSERT_TRUE(WaitFor(4000).ok());
    ASSERT_TRUE(Eventually([this] { return scheduler_->stats().running_jobs == 0; }));
  }

  // Returns a job that notes which thread answers it (ThreadOf).
  std::unique_ptr<engine::Job> MakeNotedJob(int32_t number) {
    auto job = MakeJob(number);
    job->done = [this, number, done = std::move(job->done)](absl::StatusOr<engine::JobResult> result) mutable {
      {
        const MutexLock lock(&mutex_);
        threads_[number] = std::this_thread::get_id();
      }
      done(std::move(result));
    };
    return job;
  }

  absl::Status SubmitOrScore(int32_t number) {
    auto job = MakeNotedJob(number);
    return scheduler_->SubmitOrScore(job);
  }

  // Waits for the answer to job `number` and returns the thread that gave it.
  std::thread::id ThreadOf(int32_t number) {
    EXPECT_TRUE(WaitFor(number).ok());
    const MutexLock lock(&mutex_);
    return threads_[number];
  }

  std::map<int32_t, std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(CallerRunsTest, AShortJobThatComesAloneIsAnsweredOnTheCallersThread) {
  Start({}, 2);
  KnowTheRate();
  for (int32_t number = 1; number <= 5; ++number) {
    ASSERT_TRUE(SubmitOrScore(number).ok());
    ASSERT_TRUE(Answered(number));
    EXPECT_EQ(ThreadOf(number), std::this_thread::get_id());
  }
  EXPECT_EQ(scheduler_->stats().running_jobs, 0);
  EXPECT_EQ(scheduler_->stats().queued_jobs, 0);
}

TEST_F(CallerRunsTest, AJobIsQueuedAsLongAsNoRateIsKnown) {
  Start({});
  ASSERT_TRUE(SubmitOrScore(1).ok());
  EXPECT_NE(ThreadOf(1), std::this_thread::get_id());
}

TEST_F(CallerRunsTest, ALongJobIsQueued) {
  Start({});
  backend_.OnTopK([](absl::Span<const Query>) {
    absl::SleepFor(10 * Scheduler::kShort);
    return absl::OkStatus();
  });
  ASSERT_TRUE(Submit(2));
  ASSERT_TRUE(WaitFor(2).ok());
  ASSERT_TRUE(Eventually([this] { return scheduler_->stats().running_jobs == 0; }));
  ASSERT_TRUE(SubmitOrScore(3).ok());
  EXPECT_NE(ThreadOf(3), std::this_thread::get_id());
}

TEST_F(CallerRunsTest, AJobOnACollectionThatIsNotResidentIsQueued) {
  Start({});
  KnowTheRate();
  const auto mapped = test::LoadCorpus(folder_.path(), &backend_, store::Residency::kDisk);
  ASSERT_FALSE(mapped->is_resident());
  ASSERT_TRUE(collection_->is_resident());
  auto job = MakeNotedJob(1);
  job->collection = mapped;
  ASSERT_TRUE(scheduler_->SubmitOrScore(job).ok());
  EXPECT_NE(ThreadOf(1), std::this_thread::get_id());
}

TEST_F(CallerRunsTest, JobsAreQueuedWhereBatchesAreHeldBack) {
  Start({.max_batch_delay = absl::Microseconds(1)});
  KnowTheRate();
  ASSERT_TRUE(SubmitOrScore(1).ok());
  EXPECT_NE(ThreadOf(1), std::this_thread::get_id());
}

TEST_F(CallerRunsTest, WhatComesMeanwhileIsQueuedAndScoredByTheLanes) {
  Start({});
  KnowTheRate();
  const size_t before = backend_.calls().size();
  backend_.Close();
  std::thread::id caller;
  std::future<absl::Status> held_up = std::async(std::launch::async, [&] {
    caller = std::this_thread::get_id();
    return SubmitOrScore(1);
  });
  ASSERT_TRUE(backend_.WaitForCalls(before + 1));
  ASSERT_TRUE(SubmitOrScore(2).ok());
  ASSERT_TRUE(Submit(3));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 2) << "the one lane is taken";
  EXPECT_EQ(scheduler_->stats().running_jobs, 1);
  EXPECT_FALSE(Answered(2));
  backend_.Open();
  EXPECT_TRUE(held_up.get().ok());
  EXPECT_EQ(ThreadOf(1), caller) << "it was queued, too";
  EXPECT_NE(ThreadOf(2), caller);
  EXPECT_TRUE(WaitFor(3).ok());
}

// A caller's lane (place for scoring) is free again while the caller still answers its own job. If a second caller
// scored a job then, a second thread could be held up by an answer. So only one caller at a time may score.
TEST_F(CallerRunsTest, OneCallerAtATime) {
  Start({});
  KnowTheRate();
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::promise<void> answers;
  auto job = MakeJob(1);
  job->done = [&, done = std::move(job->done)](absl::StatusOr<engine::JobResult> result) mutable {
    answers.set_value();
    opened.wait();
    done(std::move(result));
  };
  std::future<absl::Status> held_up = std::async(std::launch::async, [&] { return scheduler_->SubmitOrScore(job); });
  answers.get_future().wait();
  EXPECT_TRUE(SubmitOrScore(2).ok());
  EXPECT_NE(ThreadOf(2), std::this_thread::get_id());
  EXPECT_FALSE(Answered(1));
  open.set_value();
  EXPECT_TRUE(held_up.get().ok());
  ASSERT_TRUE(SubmitOrScore(3).ok());
  EXPECT_EQ(ThreadOf(3), std::this_thread::get_id());
}

TEST_F(CallerRunsTest, ADeadJobIsNotScored) {
  Start({});
  KnowTheRate();
  const size_t before = backend_.calls().size();
  auto job = MakeJob(1);
  job->cancelled = std::make_shared<std::atomic<bool>>(true);
  ASSERT_TRUE(scheduler_->SubmitOrScore(job).ok());
  EXPECT_EQ(WaitFor(1).code(), absl::StatusCode::kCancelled);
  job = MakeJob(2);
  job->deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(scheduler_->SubmitOrScore(job).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(job, nullptr) << "a refused job stays with the caller";
  EXPECT_EQ(backend_.calls().size(), before);
}

TEST_F(CallerRunsTest, ALostDeviceFailsTheJobAndWhatComesAfterIt) {
  Start({});
  KnowTheRate();
  backend_.OnTopK([](absl::Span<const Query>) { return absl::UnavailableError("it fell off the bus"); });
  ASSERT_TRUE(SubmitOrScore(1).ok());
  ASSERT_TRUE(Answered(1));
  EXPECT_EQ(WaitFor(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SubmitOrScore(2).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CallerRunsTest, ShutdownWaitsForTheAnswer) {
  Start({});
  KnowTheRate();
  std::promise<void> open;
  std::promise<void> answers;
  auto job = MakeJob(1);
  job->done = [&, opened = open.get_future(), done = std::move(job->done)](auto result) mutable {
    answers.set_value();
    opened.wait();
    done(std::move(result));
  };
  std::future<absl::Status> held_up = std::async(std::launch::async, [&] { return scheduler_->SubmitOrScore(job); });
  answers.get_future().wait();
  std::future<int64_t> failed =
      std::async(std::launch::async, [this] { return scheduler_->Shutdown(absl::InfiniteFuture()); });
  EXPECT_EQ(failed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  open.set_value();
  EXPECT_EQ(failed.get(), 0);
  EXPECT_TRUE(Answered(1));
  EXPECT_TRUE(held_up.get().ok());
  EXPECT_EQ(SubmitOrScore(2).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace maxsim::batching
