// A fixture with a scheduler and a backend that the test controls. Each job has one query, whose number of tokens is
// the number of the job.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/batching/scheduler.h"
#include "server/engine/engine.h"
#include "server/observability/metrics.h"
#include "server/store/memory/device_set.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::batching {

class SchedulerTest : public testing::Test {
 protected:
  static constexpr int64_t kNumDocuments = 10;

  SchedulerTest() {
    test::BuildCorpus(folder_.path(), test::SmallDocuments(1, kNumDocuments));
    collection_ = test::LoadCorpus(folder_.path(), &backend_);
    other_collection_ = test::LoadCorpus(folder_.path(), &backend_);
  }

  // Opens the backend, because the scheduler cannot end while lanes are blocked.
  ~SchedulerTest() override {
    backend_.Open();
    scheduler_ = nullptr;
  }

  // Sets no limit to the time in the queue unless the test does, because the machine may be busy.
  void Start(SchedulerOptions options, int num_lanes = 1) {
    if (options.max_queue_time == SchedulerOptions().max_queue_time) options.max_queue_time = absl::ZeroDuration();
    scheduler_ = nullptr;
    absl::StatusOr<std::unique_ptr<engine::Engine>> engine =
        engine::Engine::Create(&devices_, {.num_lanes = num_lanes, .executor = {}});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    scheduler_ = std::make_unique<Scheduler>(engine_.get(), &metrics_, options);
  }

  std::unique_ptr<engine::Job> MakeJob(int32_t number) {
    std::vector<engine::JobQuery> queries;
    queries.push_back(engine::MakeJobQuery(test::MakeQuery(1, ScalarType::kF16, 16, number), engine::WholeCollection(),
                                           static_cast<int32_t>(kNumDocuments)));
    auto job = engine::MakeJob(collection_, std::move(queries));
    job->done = [this, number](absl::StatusOr<engine::JobResult> result) {
      const MutexLock lock(&mutex_);
      answers_[number].push_back(std::move(result));
      answered_.NotifyAll();
    };
    return job;
  }

  absl::Status Submit(std::unique_ptr<engine::Job> job) { return scheduler_->Submit(job); }

  // Submits job `number`. If it is rejected, fails the test and returns false.
  bool Submit(int32_t number, engine::Priority priority = engine::Priority::kNormal,
              absl::Time deadline = absl::InfiniteFuture()) {
    auto job = MakeJob(number);
    job->priority = priority;
    job->deadline = deadline;
    const absl::Status status = Submit(std::move(job));
    EXPECT_TRUE(status.ok()) << status;
    return status.ok();
  }

  // Makes TopK calls wait, and submits one job per lane (numbered from 1001), so that later jobs wait in the queue.
  void OccupyLanes(int num_lanes = 1) {
    backend_.Close();
    const size_t before = backend_.calls().size();
    for (int lane = 0; lane < num_lanes; ++lane) {
      ASSERT_TRUE(Submit(1001 + lane));
      ASSERT_TRUE(backend_.WaitForCalls(before + static_cast<size_t>(lane) + 1));
    }
  }

  // Waits for the answer to a job and returns its status. Fails the test if there is no answer within kTestLimit.
  absl::Status WaitFor(int32_t number) {
    MutexLock lock(&mutex_);
    const auto end = std::chrono::steady_clock::now() + test::kTestLimit;
    while (answers_[number].empty()) {
      if (!answered_.WaitUntil(lock, end) && answers_[number].empty()) {
        ADD_FAILURE() << "no answer to job " << number;
        return absl::UnknownError("no answer");
      }
    }
    return answers_[number].front().status();
  }

  bool Answered(int32_t number) {
    const MutexLock lock(&mutex_);
    return !answers_[number].empty();
  }

  // Returns the numbers of the jobs in every TopK call from call `first` on: one list per call.
  std::vector<std::vector<int32_t>> Batches(size_t first) {
    std::vector<std::vector<int32_t>> batches;
    const auto calls = backend_.calls();
    for (size_t idx = first; idx < calls.size(); ++idx) batches.push_back(calls[idx].query_tokens);
    return batches;
  }

  static bool Eventually(const std::function<bool()>& condition) { return test::Eventually(condition); }

  // Returns the line of a series in the metrics' text, or "" if there is none.
  std::string Series(const std::string& prefix) const {
    const std::string text = metrics_.Expose();
    size_t begin = text.find("\n" + prefix);
    if (begin == std::string::npos) return "";
    ++begin;
    return text.substr(begin, text.find('\n', begin) - begin);
  }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::DeviceSet devices_{&backend_};
  Metrics metrics_;
  std::shared_ptr<const store::Collection> collection_;
  std::shared_ptr<const store::Collection> other_collection_;  // of the same documents, another generation

  Mutex mutex_;
  ConditionVariable answered_;
  std::map<int32_t, std::vector<absl::StatusOr<engine::JobResult>>> answers_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace maxsim::batching
