#include "server/batching/answer_threads.h"

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "tests/support/scheduler_fixture.h"
#include "tests/support/values/eventually.h"

namespace maxsim::batching {
namespace {

// Pass() blocks the calling thread until Open() is called.
class Gate {
 public:
  void Open() { open_.set_value(); }
  void Pass() { opened_.wait(); }

 private:
  std::promise<void> open_;
  const std::shared_future<void> opened_ = open_.get_future().share();
};

TEST(AnswerThreadsTest, TakesAsMuchAsItHasThreadsAndMoreOnceOneIsFree) {
  Gate gate;
  std::atomic<int> done{0};
  const auto make = [&] {
    return AnswerThreads::Work([&] {
      gate.Pass();
      ++done;
    });
  };
  AnswerThreads threads(2);
  for (int idx = 0; idx < 2; ++idx) {
    AnswerThreads::Work work = make();
    EXPECT_TRUE(threads.TryStart(work));
  }
  AnswerThreads::Work third = make();
  EXPECT_FALSE(threads.TryStart(third));
  EXPECT_TRUE(third) << "what is not taken stays with the caller";
  gate.Open();
  EXPECT_TRUE(test::Eventually([&] { return threads.TryStart(third); }));
}

TEST(AnswerThreadsTest, WhatWasTakenIsDoneWhenTheDestructorReturns) {
  for (int turn = 0; turn < 100; ++turn) {
    std::atomic<int> done{0};
    int taken = 0;
    {
      AnswerThreads threads(3);
      for (int idx = 0; idx < 5; ++idx) {
        AnswerThreads::Work work = [&done] { ++done; };
        taken += threads.TryStart(work) ? 1 : 0;
      }
    }
    EXPECT_GE(taken, 3);
    EXPECT_EQ(done, taken);
  }
}

class AnswerTest : public SchedulerTest {
 protected:
  // Opens all gates. Otherwise the scheduler's destructor would wait forever for the answers that block on them.
  ~AnswerTest() override {
    backend_.Open();
    for (const auto& [number, gate] : gates_) {
      if (!opened_.contains(number)) gate->Open();
    }
    scheduler_ = nullptr;
  }

  // Submits a job whose answer blocks until LetGo(number). Afterwards, ThreadOf(number) is the thread that answers.
  void SubmitGated(int32_t number) {
    auto job = MakeJob(number);
    Gate* const gate = (gates_[number] = std::make_unique<Gate>()).get();
    job->done = [this, gate, number, done = std::move(job->done)](absl::StatusOr<engine::JobResult> result) mutable {
      {
        const MutexLock lock(&mutex_);
        threads_[number] = std::this_thread::get_id();
      }
      gate->Pass();
      done(std::move(result));
    };
    ASSERT_TRUE(Submit(std::move(job)).ok());
  }

  // Makes an idle scheduler's lane (the thread that scores a batch) score job `number`, whose answer blocks. Calls
  // `submit` meanwhile. It submits another job, which then waits, so the lane hands the answer over to an answer
  // thread.
  void ScoreGatedBefore(int32_t number, const std::function<void()>& submit) {
    backend_.Close();
    SubmitGated(number);
    ASSERT_TRUE(backend_.WaitForCalls(1));
    submit();
    backend_.Open();
  }

  void LetGo(int32_t number) {
    gates_[number]->Open();
    opened_.insert(number);
  }

  std::thread::id ThreadOf(int32_t number) {
    const MutexLock lock(&mutex_);
    return threads_[number];
  }

  std::map<int32_t, std::unique_ptr<Gate>> gates_;
  std::set<int32_t> opened_;
  std::map<int32_t, std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(AnswerTest, TheLaneScoresTheNextBatchMeanwhile) {
  Start({.max_batch_queries = 1});
  ScoreGatedBefore(1, [this] { ASSERT_TRUE(Submit(2)); });
  EXPECT_TRUE(WaitFor(2).ok());
  EXPECT_FALSE(Answered(1));
  LetGo(1);
  EXPECT_TRUE(WaitFor(1).ok());
}

// At most one batch per lane (scoring thread) and one per answer thread may be scored but not yet answered. The only
// lane and the only answer thread have one each, so job 3 must wait.
TEST_F(AnswerTest, TheLaneAnswersWhenNoThreadIsFree) {
  Start({.max_batch_queries = 1});
  ScoreGatedBefore(1, [this] {
    SubmitGated(2);
    ASSERT_TRUE(Submit(3));
  });
  ASSERT_TRUE(Eventually([this] { return ThreadOf(2) != std::thread::id(); }));
  EXPECT_NE(ThreadOf(1), ThreadOf(2));
  EXPECT_EQ(backend_.calls().size(), 2u);
  EXPECT_EQ(scheduler_->stats().queued_jobs, 1);
  LetGo(2);
  EXPECT_TRUE(WaitFor(3).ok());
  EXPECT_FALSE(Answered(1));
  LetGo(1);
  EXPECT_TRUE(WaitFor(1).ok());
}

TEST_F(AnswerTest, AJobThatIsAloneIsAnsweredByItsLane) {
  Start({.max_batch_queries = 1});
  // Job 1 is answered by an answer thread, because job 2 waits for the lane (scoring thread). Job 3 is alone, so the
  // lane answers it.
  ScoreGatedBefore(1, [this] { SubmitGated(2); });
  LetGo(1);
  LetGo(2);
  ASSERT_TRUE(WaitFor(1).ok());
  ASSERT_TRUE(WaitFor(2).ok());
  SubmitGated(3);
  LetGo(3);
  ASSERT_TRUE(WaitFor(3).ok());
  EXPECT_NE(ThreadOf(3), ThreadOf(1));
}

TEST_F(AnswerTest, ABatchOfTwoDoesNotKeepTheLaneThoughNothingWaits) {
  Start({.max_batch_delay = absl::Seconds(60), .max_batch_queries = 2});
  SubmitGated(1);
  SubmitGated(2);
  ASSERT_TRUE(Eventually([this] { return ThreadOf(1) != std::thread::id(); }));
  ASSERT_TRUE(Submit(3));
  ASSERT_TRUE(Submit(4));
  EXPECT_TRUE(WaitFor(4).ok());
  EXPECT_FALSE(Answered(1));
  LetGo(1);
  LetGo(2);
  EXPECT_TRUE(WaitFor(2).ok());
}

TEST_F(AnswerTest, ShutdownWaitsForAnswers) {
  Start({.max_batch_queries = 1});
  ScoreGatedBefore(1, [this] { ASSERT_TRUE(Submit(2)); });
  ASSERT_TRUE(WaitFor(2).ok());
  std::thread opener([this] {
    absl::SleepFor(absl::Milliseconds(20));
    LetGo(1);
  });
  EXPECT_EQ(scheduler_->Shutdown(absl::Now()), 0);
  EXPECT_TRUE(Answered(1));
  opener.join();
}

}  // namespace
}  // namespace maxsim::batching
