// Many threads submit and cancel jobs and let them expire, with and without a shutdown in the middle. Every accepted
// job must be answered exactly once, with its own result or with the right error.
#include <random>
#include <thread>

#include "tests/support/scheduler_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::batching {
namespace {

using engine::Priority;

class SchedulerStressTest : public SchedulerTest {
 protected:
  struct Outcome {
    std::atomic<int> answers{0};
    std::atomic<int> code{-1};
    std::atomic<bool> right{true};
    bool accepted = false;
  };

  // Submits a job with random size, priority, deadline and kind of candidates. Cancels some of the jobs.
  void SubmitOne(std::mt19937_64& random, Outcome* outcome) {
    const auto number = static_cast<int32_t>(1 + random() % 8);
    auto job = MakeJob(number);
    const auto kind = random() % 4;
    int64_t candidates = kNumDocuments;
    if (kind == 0) {
      job->queries[0].candidates = engine::Ordinals({7, 2, 5});
      candidates = 3;
    } else if (kind == 1) {
      job->queries[0].candidates = inline_documents_;
      candidates = 4;
    }
    if (random() % 5 == 0) job->collection = other_collection_;
    engine::ComputeWork(job.get());
    job->priority = static_cast<Priority>(random() % 3);
    if (random() % 3 == 0) job->deadline = absl::Now() + absl::Microseconds(static_cast<int64_t>(random() % 4000));
    const bool cancels = random() % 4 == 0;
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    if (cancels) job->cancelled = cancelled;
    job->done = [this, outcome, candidates](absl::StatusOr<engine::JobResult> result) {
      outcome->answers.fetch_add(1);
      scored_ += result.ok() ? 1 : 0;
      outcome->code = static_cast<int>(result.status().code());
      if (result.ok()) {
        outcome->right = result->queries.size() == 1 &&
                         result->queries[0].hits.size() == static_cast<size_t>(candidates) &&
                         result->queries[0].hits[0].ordinal == (candidates == 3 ? 2u : 0u);
      }
    };
    const absl::Status status = random() % 2 == 0 ? scheduler_->Submit(job) : scheduler_->SubmitOrScore(job);
    outcome->accepted = status.ok();
    EXPECT_EQ(status.ok(), job == nullptr);
    if (!status.ok()) outcome->code = static_cast<int>(status.code());
    if (cancels) {
      std::this_thread::yield();
      *cancelled = true;
    }
  }

  void Run(bool shut_down_early, int num_lanes, absl::Duration max_batch_delay) {
    Start({.max_queue_work = 20'000,
           .max_queue_jobs = 64,
           .max_batch_delay = max_batch_delay,
           .max_batch_work = 5'000,
           .max_batch_queries = 8,
           .starvation_limit = absl::Milliseconds(2)},
          num_lanes);
    backend_.OnTopK([](absl::Span<const Query> queries) {
      if (queries.size() % 3 == 0) absl::SleepFor(absl::Microseconds(300));
      return absl::OkStatus();
    });
    constexpr size_t kThreads = 6;
    constexpr size_t kJobs = test::kSanitized ? 150 : 300;
    scored_ = 0;
    std::vector<Outcome> outcomes(kThreads * kJobs);
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(test::TestSeed() + thread);
        for (size_t idx = 0; idx < kJobs; ++idx) {
          SubmitOne(random, &outcomes[thread * kJobs + idx]);
          if (random() % 16 == 0) absl::SleepFor(absl::Microseconds(500));
          if (random() % 64 == 0) scheduler_->RetryDelay();
        }
      });
    }
    int64_t failed = 0;
    if (shut_down_early) {
      EXPECT_TRUE(Eventually([this] { return scored_ >= 20; }));
      failed = scheduler_->Shutdown(absl::Now() + absl::Milliseconds(2));
    }
    for (std::thread& thread : threads) thread.join();
    failed += scheduler_->Shutdown(absl::InfiniteFuture());

    int64_t unavailable = 0;
    int64_t ok = 0;
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.answers, outcome.accepted ? 1 : 0);
      EXPECT_TRUE(outcome.right);
      const auto code = static_cast<absl::StatusCode>(outcome.code.load());
      EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kCancelled ||
                  code == absl::StatusCode::kDeadlineExceeded || code == absl::StatusCode::kResourceExhausted ||
                  (shut_down_early && code == absl::StatusCode::kUnavailable))
          << static_cast<int>(code);
      ok += code == absl::StatusCode::kOk ? 1 : 0;
      unavailable += outcome.accepted && code == absl::StatusCode::kUnavailable ? 1 : 0;
    }
    EXPECT_EQ(failed, unavailable);
    EXPECT_GT(ok, 0);
    const SchedulerStats stats = scheduler_->stats();
    EXPECT_EQ(stats.queued_jobs, 0);
    EXPECT_EQ(stats.queued_work, 0u);
    EXPECT_EQ(stats.running_jobs, 0);
  }

  std::atomic<int> scored_{0};
  const engine::CandidatesPtr inline_documents_ = engine::Inline(test::SmallDocuments(3, 4));
};

TEST_F(SchedulerStressTest, EveryAcceptedJobIsAnsweredOnce) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  Run(false, 2, absl::ZeroDuration());
}

TEST_F(SchedulerStressTest, EveryAcceptedJobIsAnsweredOnceWhenBatchesAreHeldBack) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  Run(false, 3, absl::Microseconds(500));
}

TEST_F(SchedulerStressTest, EveryAcceptedJobIsAnsweredOnceWhenTheServerStops) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  for (int round = 0; round < 3; ++round) Run(true, 2, absl::ZeroDuration());
}

TEST_F(SchedulerStressTest, EveryAcceptedJobIsAnsweredOnceWhenTheDeviceIsLost) {
  Start({.max_batch_queries = 4}, 2);
  std::atomic<int> calls{0};
  backend_.OnTopK(
      [&calls](absl::Span<const Query>) { return ++calls < 20 ? absl::OkStatus() : absl::UnavailableError("lost"); });
  std::atomic<int> accepted{0};
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int idx = 0; idx < 200; ++idx) {
        auto job = MakeJob(2);
        job->done = [&answered](absl::StatusOr<engine::JobResult> result) {
          EXPECT_TRUE(result.ok() || absl::IsUnavailable(result.status())) << result.status();
          ++answered;
        };
        const absl::Status status = idx % 2 == 0 ? scheduler_->Submit(job) : scheduler_->SubmitOrScore(job);
        EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
        if (status.ok()) ++accepted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  scheduler_->Shutdown(absl::InfiniteFuture());
  EXPECT_EQ(answered, accepted);
}

}  // namespace
}  // namespace maxsim::batching
