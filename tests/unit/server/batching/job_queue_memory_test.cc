// Tests that a JobQueue::Push that runs out of memory leaves the queue as it was.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "server/batching/job_queue.h"
#include "tests/support/collection/empty_collection.h"
#include "tests/support/values/failing_memory.h"

namespace maxsim::batching {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

// Returns a job with two queries over the whole collection.
std::unique_ptr<engine::Job> MakeJob(const std::shared_ptr<const store::Collection>& collection, uint64_t client) {
  auto job = std::make_unique<engine::Job>();
  job->client = client;
  job->work = 160;
  job->bytes = 100;
  job->collection = collection;
  job->queries.resize(2);
  for (engine::JobQuery& query : job->queries) query.candidates = std::make_shared<engine::CandidateSet>();
  return job;
}

TEST(JobQueueMemoryTest, AFailedAllocationLeavesTheQueueAsItWas) {
  const std::shared_ptr<const store::Collection> streamed = test::EmptyCollection(true);
  const store::Generation* const generation = &streamed->generation();
  JobQueue queue(absl::Milliseconds(500));
  for (const uint64_t client : {1, 2}) {
    const int64_t jobs = queue.num_jobs();
    const int64_t streaming_queries = queue.num_streaming_queries(generation);
    const int failed = test::FailAtEachAllocation([&] {
      // After the previous failure:
      ASSERT_EQ(queue.num_jobs(), jobs);
      ASSERT_EQ(queue.num_clients(), jobs);
      ASSERT_EQ(queue.num_streaming_queries(generation), streaming_queries);
      queue.Push(MakeJob(streamed, client), kNow);
    });
    EXPECT_GT(failed, 5);
    EXPECT_EQ(queue.num_jobs(), jobs + 1);
    EXPECT_EQ(queue.num_streaming_queries(generation), streaming_queries + 2);
  }
  EXPECT_EQ(queue.num_clients(), 2);
  EXPECT_EQ(queue.work(), 20u);
  EXPECT_EQ(queue.bytes(), 200u);
  EXPECT_EQ(queue.num_queries(), 4);
  std::vector<DroppedJob> dropped;
  queue.DropAll(absl::UnavailableError("the test ends"), &dropped);
  EXPECT_EQ(dropped.size(), 2u);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.num_clients(), 0);
  EXPECT_EQ(queue.num_streaming_queries(generation), 0);
}

}  // namespace
}  // namespace maxsim::batching
