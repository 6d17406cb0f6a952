// Tests scans of a collection that must be copied (streamed) to the GPU for each batch: several scans must share one
// stream. Runs in virtual time with two lanes (batches at a time).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/support/collection/empty_collection.h"
#include "tests/unit/server/batching/virtual_scheduler.h"

namespace maxsim::batching {
namespace {

// A lane scores one scan per second. The limit on a batch's work (max_batch_work) is the work of one scan.
constexpr uint64_t kScanWork = 1000;
constexpr double kLaneRate = 1000;

class SharedStreamTest : public testing::Test {
 protected:
  static SchedulerOptions Options(int max_batch_queries = 64) {
    return {
        .max_queue_time = absl::ZeroDuration(), .max_batch_work = kScanWork, .max_batch_queries = max_batch_queries};
  }
  void SubmitScans(VirtualScheduler& scheduler, int count, const std::shared_ptr<const store::Collection>& collection) {
    for (int n = 0; n < count; ++n) {
      ASSERT_TRUE(scheduler.SubmitScan(static_cast<uint64_t>(n), kScanWork, collection).ok());
    }
  }
  static absl::Duration Slowest(const VirtualScheduler& scheduler) {
    absl::Duration slowest;
    for (const auto& answer : scheduler.answers()) slowest = std::max(slowest, answer.total);
    return slowest;
  }

  const std::shared_ptr<const store::Collection> streamed_ = test::EmptyCollection(true);
  const std::shared_ptr<const store::Collection> resident_ = test::EmptyCollection();
};

TEST_F(SharedStreamTest, ScansThatWaitForAScanAreTheNextBatchTogether) {
  VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  SubmitScans(scheduler, 31, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  EXPECT_EQ(scheduler.stats().running_jobs, 1) << "the free lane would copy every document a second time";
  scheduler.Run(absl::Seconds(2));
  EXPECT_EQ(scheduler.answers().size(), 32u);
  EXPECT_LE(Slowest(scheduler), absl::Milliseconds(1'950));
}

TEST_F(SharedStreamTest, AFreeLaneTakesOtherJobsMeanwhile) {
  VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  SubmitScans(scheduler, 2, streamed_);
  SubmitScans(scheduler, 1, test::EmptyCollection(true));
  ASSERT_TRUE(scheduler.Submit(7, 10).ok());
  scheduler.Run(absl::Milliseconds(100));
  EXPECT_EQ(scheduler.stats().running_jobs, 2);
  EXPECT_EQ(scheduler.stats().queued_jobs, 3);
  scheduler.Run(absl::Seconds(3));
  EXPECT_EQ(scheduler.answers().size(), 5u);
}

TEST_F(SharedStreamTest, ListsDoNotDivideTheScansOfAStream) {
  VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  for (uint64_t client = 0; client < 8; ++client) {
    ASSERT_TRUE(scheduler.SubmitScan(client, kScanWork, streamed_).ok());
    ASSERT_TRUE(scheduler.SubmitScan(client, 10, streamed_, true).ok());
  }
  scheduler.Run(absl::Milliseconds(150));
  EXPECT_EQ(scheduler.answers().size(), 8u) << "the lists, on the other lane";
  scheduler.Run(absl::Milliseconds(1'800));
  EXPECT_EQ(scheduler.answers().size(), 17u);
}

TEST_F(SharedStreamTest, AScanWhoseTimeIsOverBeforeTheStreamEndsDoesNotWaitForIt) {
  SchedulerOptions options = Options();
  options.max_queue_time = absl::Milliseconds(500);
  VirtualScheduler scheduler(options, 2 * kLaneRate, 2);
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(1'100));
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  EXPECT_EQ(scheduler.stats().running_jobs, 2);
  scheduler.Run(absl::Milliseconds(400));
  SubmitScans(scheduler, 1, streamed_);  // 400 ms before the end of the first
  scheduler.Run(absl::Seconds(3));
  ASSERT_EQ(scheduler.answers().size(), 4u);
  for (const auto& answer : scheduler.answers()) EXPECT_TRUE(answer.status.ok()) << answer.status;
}

TEST_F(SharedStreamTest, TheDefaultQueueTakesAsManyScansAsABatch) {
  SchedulerOptions options;
  options.max_queue_time = absl::ZeroDuration();
  VirtualScheduler scheduler(options, 2e10, 2);
  for (uint64_t n = 0; n < 65; ++n) {
    ASSERT_TRUE(scheduler.SubmitScan(n, uint64_t{10'000'000'000}, streamed_).ok()) << n;
  }
}

TEST_F(SharedStreamTest, AnyNumberOfWaitingScansLeavesTheOtherLaneToOtherJobs) {
  VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
  SubmitScans(scheduler, 1, streamed_);
  scheduler.Run(absl::Milliseconds(100));
  for (int n = 0; n < 5'000; ++n) ASSERT_TRUE(scheduler.SubmitScan(1, kScanWork, streamed_).ok());
  ASSERT_TRUE(scheduler.Submit(7, 10).ok());
  scheduler.Run(absl::Milliseconds(100));
  ASSERT_EQ(scheduler.answers().size(), 1u);
  EXPECT_EQ(scheduler.answers()[0].client, 7u);
}

TEST_F(SharedStreamTest, AStreamThatIsOverDoesNotKeepItsCollection) {
  VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
  std::shared_ptr<const store::Collection> collection = test::EmptyCollection(true);
  const std::weak_ptr<const store::Collection> weak = collection;
  SubmitScans(scheduler, 3, collection);
  scheduler.Run(absl::Milliseconds(2'500));
  EXPECT_EQ(scheduler.answers().size(), 3u);
  collection.reset();
  EXPECT_TRUE(weak.expired());
}

TEST_F(SharedStreamTest, TheNumberOfQueriesBoundsABatch) {
  VirtualScheduler scheduler(Options(4), 2 * kLaneRate, 2);
  SubmitScans(scheduler, 9, streamed_);
  scheduler.Run(absl::Milliseconds(2'500));
  EXPECT_EQ(scheduler.answers().size(), 8u);
  scheduler.Run(absl::Seconds(1));
  EXPECT_EQ(scheduler.answers().size(), 9u);
}

TEST_F(SharedStreamTest, ScansOfResidentDocumentsKeepToTheWorkOfABatch) {
  VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
  SubmitScans(scheduler, 8, resident_);
  scheduler.Run(absl::Milliseconds(1'500));
  EXPECT_EQ(scheduler.answers().size(), 2u);
  scheduler.Run(absl::Seconds(3));
  EXPECT_EQ(scheduler.answers().size(), 8u);
}

// Each client asks again as soon as it is answered. One stream to the GPU must serve all clients. They must not split
// into two groups that take turns.
TEST_F(SharedStreamTest, ClientsThatAskAgainAreAnsweredByOneStream) {
  for (const size_t num_clients : {size_t{1}, size_t{2}, size_t{16}}) {
    VirtualScheduler scheduler(Options(), 2 * kLaneRate, 2);
    size_t asked = 0;
    for (int step = 0; step < 20'000; ++step) {
      const size_t num_asking = std::min<size_t>(num_clients, 1 + static_cast<size_t>(step) / 100);
      // At most one client asks per millisecond, so the stream (the shared copy to the GPU) must wait a little for the
      // others.
      if (asked - scheduler.answers().size() < num_asking) {
        ASSERT_TRUE(scheduler.SubmitScan(asked++ % num_clients, kScanWork, streamed_).ok());
      }
      scheduler.Run(absl::Milliseconds(1));
    }
    // 20 s are enough for 19 streams (copies of the collection to the GPU), one after another. The first two serve only
    // the clients that have begun by then.
    EXPECT_GE(scheduler.answers().size(), num_clients * 17) << num_clients << " clients";
  }
}

}  // namespace
}  // namespace maxsim::batching
