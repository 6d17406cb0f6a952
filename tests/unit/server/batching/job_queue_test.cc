#include "server/batching/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/batching/throughput_meter.h"
#include "tests/support/collection/empty_collection.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr BatchLimits kNoLimits = {UINT64_MAX / 2, 1 << 30};

class JobQueueTest : public testing::Test {
 protected:
  // Pushes a job with `queries` queries. Tests recognise the job by its `work`. All jobs without a `collection`
  // argument share one collection.
  void Push(uint64_t work, Priority priority = Priority::kNormal, size_t queries = 1,
            std::shared_ptr<const store::Collection> collection = nullptr) {
    auto job = std::make_unique<engine::Job>();
    job->work = work;
    job->priority = priority;
    job->queries.resize(queries);
    static const auto* const common = new std::shared_ptr<const store::Collection>(test::EmptyCollection());
    job->collection = collection == nullptr ? *common : std::move(collection);
    last_ = job.get();
    queue_.Push(std::move(job), now_);
  }

  std::vector<uint64_t> Take(const BatchLimits& limits = kNoLimits) {
    std::vector<uint64_t> works;
    for (const QueuedJob& queued : queue_.TakeBatch(now_, limits, &dropped_)) works.push_back(queued.job->work);
    return works;
  }

  static std::shared_ptr<const store::Collection> OtherGeneration() {
    static const auto* const other = new std::shared_ptr<const store::Collection>(test::EmptyCollection());
    return *other;
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  JobQueue queue_{absl::Milliseconds(500)};
  std::vector<DroppedJob> dropped_;
  engine::Job* last_ = nullptr;
};

TEST_F(JobQueueTest, CountsWhatIsInIt) {
  EXPECT_TRUE(queue_.empty());
  Push(10, Priority::kLow, 2);
  Push(20, Priority::kHigh, 3);
  EXPECT_EQ(queue_.num_jobs(), 2);
  EXPECT_EQ(queue_.num_queries(), 5);
  EXPECT_EQ(queue_.work(), 30u);
  EXPECT_THAT(Take({.max_work = 1, .max_queries = 1}), ElementsAre(20));
  EXPECT_EQ(queue_.num_jobs(), 1);
  EXPECT_EQ(queue_.num_queries(), 2);
  EXPECT_EQ(queue_.work(), 10u);
  EXPECT_THAT(Take(), ElementsAre(10));
  EXPECT_TRUE(queue_.empty());
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(JobQueueTest, TheStarvationLimitIsExact) {
  Push(1, Priority::kLow);
  now_ += absl::Milliseconds(1);
  Push(2, Priority::kHigh);
  now_ += absl::Milliseconds(498);
  EXPECT_EQ(queue_.Head(now_).job->work, 2u);
  now_ += absl::Milliseconds(1);
  EXPECT_EQ(queue_.Head(now_).job->work, 1u);
  EXPECT_THAT(Take(), ElementsAre(1, 2));
}

TEST_F(JobQueueTest, StarvingJobsOfSeveralPrioritiesGoByArrival) {
  Push(1, Priority::kNormal);
  Push(2, Priority::kLow);
  Push(3, Priority::kNormal);
  Push(4, Priority::kHigh);
  EXPECT_EQ(queue_.Head(now_).job->work, 4u);
  now_ += absl::Seconds(1);
  EXPECT_THAT(Take(), ElementsAre(1, 2, 3, 4));
}

TEST_F(JobQueueTest, ABatchEndsAtTheFirstJobThatDoesNotFit) {
  for (uint64_t work : {6, 4, 1}) Push(work);
  EXPECT_THAT(Take({.max_work = 9, .max_queries = 10}), ElementsAre(6));
  EXPECT_THAT(Take({.max_work = 5, .max_queries = 10}), ElementsAre(4, 1));
  for (size_t queries : {2, 2, 1}) Push(1, Priority::kNormal, queries);
  EXPECT_THAT(Take({.max_work = 100, .max_queries = 4}), ElementsAre(1, 1));
  EXPECT_THAT(Take({.max_work = 100, .max_queries = 4}), ElementsAre(1));
}

TEST_F(JobQueueTest, JobsOfOtherGenerationsStayInTheirOrder) {
  Push(1);
  Push(2, Priority::kHigh, 1, OtherGeneration());
  Push(3);
  Push(4, Priority::kLow, 1, OtherGeneration());
  EXPECT_THAT(Take(), ElementsAre(2, 4));
  EXPECT_THAT(Take(), ElementsAre(1, 3));
}

TEST_F(JobQueueTest, DeadJobsNeitherJoinABatchNorFillIt) {
  Push(1);
  last_->cancelled = std::make_shared<std::atomic<bool>>(true);
  Push(2);
  last_->deadline = now_;
  Push(3);
  last_->deadline = now_ + absl::Nanoseconds(1);
  Push(4);
  EXPECT_THAT(Take({.max_work = 7, .max_queries = 2}), ElementsAre(3, 4));
  ASSERT_EQ(dropped_.size(), 2u);
  EXPECT_EQ(dropped_[0].reason.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(dropped_[1].reason.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(queue_.empty());
}

// gRPC cancels a call when its deadline passes, so a job can be both expired and cancelled.
TEST_F(JobQueueTest, AnExpiredJobThatWasCancelledCountsAsExpired) {
  Push(1);
  last_->cancelled = std::make_shared<std::atomic<bool>>(true);
  last_->deadline = now_ + absl::Nanoseconds(1);
  EXPECT_EQ(CheckAlive(*last_, now_).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(CheckAlive(*last_, now_ + absl::Nanoseconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(JobQueueTest, DropExpiredAndCancelledTellsTheNextDeadline) {
  EXPECT_EQ(queue_.DropExpiredAndCancelled(now_, &dropped_), absl::InfiniteFuture());
  Push(1, Priority::kHigh);
  last_->deadline = now_ + absl::Seconds(3);
  Push(2, Priority::kLow);
  last_->deadline = now_ + absl::Seconds(2);
  Push(3);
  EXPECT_EQ(queue_.DropExpiredAndCancelled(now_, &dropped_), now_ + absl::Seconds(2));
  EXPECT_THAT(dropped_, IsEmpty());
  EXPECT_EQ(queue_.DropExpiredAndCancelled(now_ + absl::Seconds(2), &dropped_), now_ + absl::Seconds(3));
  ASSERT_EQ(dropped_.size(), 1u);
  EXPECT_EQ(dropped_[0].queued.job->work, 2u);
  EXPECT_EQ(queue_.work(), 4u);
}

TEST_F(JobQueueTest, DropAllEmptiesIt) {
  Push(1, Priority::kHigh);
  Push(2, Priority::kLow);
  queue_.DropAll(absl::UnavailableError("over"), &dropped_);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.work(), 0u);
  ASSERT_EQ(dropped_.size(), 2u);
  EXPECT_EQ(dropped_[0].reason.message(), "over");
}

TEST_F(JobQueueTest, ALongQueueOfOtherGenerationsIsNotSearchedToItsEnd) {
  Push(1);
  for (int idx = 0; idx < 10'000; ++idx) Push(2, Priority::kNormal, 1, OtherGeneration());
  Push(3);
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_EQ(queue_.num_jobs(), 10'001);
}

TEST(ThroughputMeterTest, IsWorkOverBusyTime) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  ThroughputMeter meter(absl::Seconds(2));
  EXPECT_EQ(meter.PerSecond(), 0);
  meter.Begin(start);
  EXPECT_EQ(meter.PerSecond(), 0);
  meter.Add(100, start + absl::Seconds(1));
  EXPECT_DOUBLE_EQ(meter.PerSecond(), 100);
  // A minute without jobs must not change the measured rate.
  meter.Begin(start + absl::Seconds(61));
  meter.Add(100, start + absl::Seconds(62));
  EXPECT_NEAR(meter.PerSecond(), 100, 1e-9);
}

TEST(ThroughputMeterTest, FollowsAChangeWithinAFewTimeConstants) {
  absl::Time now = absl::FromUnixSeconds(1000);
  ThroughputMeter meter(absl::Seconds(2));
  meter.Begin(now);
  for (int idx = 0; idx < 100; ++idx) meter.Add(10, now += absl::Milliseconds(100));
  EXPECT_NEAR(meter.PerSecond(), 100, 1e-6);
  for (int idx = 0; idx < 100; ++idx) meter.Add(1000, now += absl::Milliseconds(100));
  EXPECT_NEAR(meter.PerSecond(), 10'000, 200);
}

TEST(ThroughputMeterTest, TwoLanesThatFinishTogetherAddUp) {
  absl::Time now = absl::FromUnixSeconds(1000);
  ThroughputMeter meter(absl::Seconds(2));
  meter.Begin(now);
  for (int idx = 0; idx < 10; ++idx) {
    now += absl::Milliseconds(100);
    meter.Add(10, now);
    meter.Add(10, now);
  }
  EXPECT_NEAR(meter.PerSecond(), 200, 1e-6);
}

TEST(ThroughputMeterTest, AClockThatStepsBackDoesNoHarm) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  ThroughputMeter meter(absl::Seconds(2));
  meter.Begin(now);
  meter.Add(10, now - absl::Seconds(100));
  EXPECT_EQ(meter.PerSecond(), 0);
}

}  // namespace
}  // namespace maxsim::batching
