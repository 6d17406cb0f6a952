// Tests that clients of the same priority get equal work in turn, however many jobs one of them has waiting.
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/batching/job_queue.h"
#include "tests/support/collection/empty_collection.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr BatchLimits kOne = {UINT64_MAX / 2, 1};
constexpr BatchLimits kUnlimited = {UINT64_MAX / 2, 1 << 30};

std::shared_ptr<const store::Collection> Generation(int number) {
  static const auto* const collections = new std::array{test::EmptyCollection(), test::EmptyCollection(),
                                                        test::EmptyCollection(), test::EmptyCollection()};
  return (*collections)[static_cast<size_t>(number)];
}

class FairnessTest : public testing::Test {
 protected:
  // Pushes a job and returns the flag that cancels it.
  std::shared_ptr<std::atomic<bool>> Push(uint64_t client, uint64_t work, Priority priority = Priority::kNormal,
                                          int generation = 0) {
    auto job = std::make_unique<engine::Job>();
    job->client = client;
    job->work = work;
    job->bytes = 1;
    job->priority = priority;
    job->queries.resize(1);
    job->collection = Generation(generation);
    job->cancelled = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> cancelled = job->cancelled;
    queue_.Push(std::move(job), now_);
    return cancelled;
  }

  // Takes the next batch and returns the clients of its jobs.
  std::vector<uint64_t> Take(const BatchLimits& limits = kOne) {
    std::vector<uint64_t> clients;
    for (const QueuedJob& queued : queue_.TakeBatch(now_, limits, &dropped_)) clients.push_back(queued.job->client);
    return clients;
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  JobQueue queue_{absl::Milliseconds(500)};
  std::vector<DroppedJob> dropped_;
};

TEST_F(FairnessTest, ANewClientWaitsForOneTurnOfTheOthersHoweverMuchTheyHave) {
  for (int idx = 0; idx < 1000; ++idx) Push(1, 10);
  EXPECT_THAT(Take(), ElementsAre(1));
  Push(2, 10);
  // A turn lets a client take 15 token pairs of work. With the credit that client 1 has left, that is at most two of
  // its jobs.
  int before = 0;
  while (Take().front() != 2) ++before;
  EXPECT_LE(before, 2);
}

TEST_F(FairnessTest, ClientsGetTheSameWorkNotTheSameNumberOfJobs) {
  for (int idx = 0; idx < 100; ++idx) Push(1, 1000);
  for (int idx = 0; idx < 10'000; ++idx) Push(2, 10);
  for (int idx = 0; idx < 300; ++idx) Push(3, 300);
  std::map<uint64_t, uint64_t> served;
  const std::map<uint64_t, uint64_t> price = {{1, 1000}, {2, 10}, {3, 300}};
  while (served[1] < 80'000) {
    const uint64_t client = Take().front();
    served[client] += price.at(client);
    const auto [least, most] = std::minmax({served[1], served[2], served[3]});
    ASSERT_LE(most - least, 3 * 1024u);
  }
}

TEST_F(FairnessTest, JobsOfOneClientAreBatchedWithThoseOfOthersInTurn) {
  for (int idx = 0; idx < 6; ++idx) Push(1, 7);
  for (int idx = 0; idx < 2; ++idx) Push(2, 7);
  // A turn is worth 7 token pairs, which is exactly one job.
  EXPECT_THAT(Take({UINT64_MAX / 2, 5}), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(Take(kUnlimited), ElementsAre(1, 1, 1));
}

TEST_F(FairnessTest, OneClientAloneIsServedInOrderOfArrival) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  std::mt19937_64 random(test::TestSeed());
  std::vector<uint64_t> pushed;
  for (int idx = 0; idx < 500; ++idx) {
    pushed.push_back(1 + (random() >> (random() % 64)) / 1024);
    Push(7, pushed.back());
  }
  std::vector<uint64_t> taken;
  while (!queue_.empty()) {
    for (const QueuedJob& queued : queue_.TakeBatch(now_, {UINT64_MAX, 3}, &dropped_))
      taken.push_back(queued.job->work);
  }
  EXPECT_EQ(taken, pushed);
}

TEST_F(FairnessTest, TheHeadIsWhatTheNextBatchBeginsWith) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  std::mt19937_64 random(test::TestSeed());
  for (int idx = 0; idx < 2000; ++idx) {
    if (random() % 3 != 0) Push(random() % 5, 1 + random() % 1000, static_cast<Priority>(random() % 3), random() % 2);
    if (queue_.empty() || random() % 2 == 0) continue;
    const engine::Job* const head = queue_.Head(now_).job.get();
    const auto batch = queue_.TakeBatch(now_, {2000, 3}, &dropped_);
    ASSERT_FALSE(batch.empty());
    ASSERT_EQ(batch.front().job.get(), head);
  }
}

TEST_F(FairnessTest, AClientOnAnotherGenerationKeepsItsTurn) {
  Push(1, 7, Priority::kNormal, 0);
  Push(2, 7, Priority::kNormal, 1);
  for (int idx = 0; idx < 5; ++idx) Push(1, 7, Priority::kNormal, 0);
  Push(3, 7, Priority::kNormal, 0);
  EXPECT_THAT(Take({UINT64_MAX / 2, 3}), ElementsAre(1, 3, 1));
  EXPECT_THAT(Take({UINT64_MAX / 2, 3}), ElementsAre(2));
}

// While it looks for jobs on collection 0, the queue skips the first job of client 2. The next job of client 2 has more
// work than its turn has left. Client 2 must keep its turn all the same.
TEST_F(FairnessTest, AClientWhoseFirstJobIsSkippedKeepsItsTurnHoweverLargeItsNextJobIs) {
  Push(2, 3, Priority::kNormal, 1);
  Push(2, 5, Priority::kNormal, 1);
  for (int idx = 0; idx < 2; ++idx) Push(1, 2, Priority::kHigh, 0);
  for (int idx = 0; idx < 2; ++idx) Push(3, 2, Priority::kNormal, 0);
  EXPECT_THAT(Take({UINT64_MAX / 2, 3}), ElementsAre(1, 1, 3));
  EXPECT_THAT(Take(), ElementsAre(2));
}

// A turn is worth as much work as the largest waiting job. Client 1 submits a large job when its own turn is next, and
// cancels the job before the turn of client 2. That must not give client 1 more work than client 2.
TEST_F(FairnessTest, ALargeJobThatComesAndGoesBetweenTurnsFavoursNobody) {
  for (int idx = 0; idx < 600; ++idx) {
    Push(1, 1);
    Push(2, 1);
  }
  std::map<uint64_t, int> served;
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  for (int idx = 0; idx < 500; ++idx) {
    if (queue_.Head(now_).job->client == 2) {
      cancelled = Push(1, 100);
    } else {
      cancelled->store(true);
      queue_.DropExpiredAndCancelled(now_, &dropped_);
    }
    ++served[Take().front()];
  }
  EXPECT_LE(std::abs(served[1] - served[2]), 300) << served[1] << " and " << served[2];
}

TEST_F(FairnessTest, AStarvingPriorityIsServedFairlyToo) {
  for (int idx = 0; idx < 10; ++idx) Push(1, 7, Priority::kLow);
  Push(2, 7, Priority::kLow);
  now_ += absl::Seconds(1);
  for (int idx = 0; idx < 10; ++idx) Push(3, 7, Priority::kHigh);
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_THAT(Take(), ElementsAre(2));
}

// Pushes, takes and drops jobs at random. No job may be lost or served twice. Jobs of one client, priority and
// generation (version of the collection) must come in order. The queue's totals must be right, and every way to empty
// the queue must find all jobs.
TEST_F(FairnessTest, RandomTrafficKeepsEveryJobAndItsOrder) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  std::mt19937_64 random(test::TestSeed());
  std::set<uint64_t> waiting;
  std::map<std::array<uint64_t, 3>, uint64_t> last;
  uint64_t next = 1;
  const auto left = [&](const QueuedJob& queued, bool in_order) {
    const engine::Job& job = *queued.job;
    const uint64_t number = job.work;
    ASSERT_EQ(waiting.erase(number), 1u) << number;
    if (!in_order) return;
    uint64_t& before =
        last[{job.client, static_cast<uint64_t>(job.priority), reinterpret_cast<uint64_t>(job.collection.get())}];
    ASSERT_LT(before, number);
    before = number;
  };
  for (int step = 0; step < 20'000; ++step) {
    switch (random() % 8) {
      default: {
        Push(random() % 6, next, static_cast<Priority>(random() % 3), static_cast<int>(random() % 2));
        waiting.insert(next++);
        break;
      }
      case 5:
      case 6:
        for (const QueuedJob& queued : queue_.TakeBatch(now_, {4 * next, 12}, &dropped_)) left(queued, true);
        break;
      case 7: {
        engine::Job asker;
        asker.client = 100 + random() % 3;
        asker.work = 1;
        std::vector<QueuedJob> removed;
        const QueueSize bounds = {std::max<int64_t>(queue_.num_jobs() - 1, 1), UINT64_MAX, UINT64_MAX};
        queue_.MakeRoom(asker, bounds, &removed);
        for (const QueuedJob& queued : removed) left(queued, false);
        break;
      }
    }
    ASSERT_EQ(queue_.num_jobs(), static_cast<int64_t>(waiting.size()));
    now_ += absl::Milliseconds(1);
  }
  uint64_t work = 0;
  for (const uint64_t number : waiting) work += number;
  EXPECT_EQ(queue_.work(), work);
  EXPECT_EQ(queue_.bytes(), waiting.size());
  EXPECT_EQ(queue_.num_queries(), static_cast<int64_t>(waiting.size()));
  queue_.DropAll(absl::UnavailableError("over"), &dropped_);
  for (const DroppedJob& dropped : dropped_) left(dropped.queued, true);
  EXPECT_THAT(waiting, IsEmpty());
  EXPECT_EQ(queue_.num_clients(), 0);
}

TEST_F(FairnessTest, JobsThatLeaveUnservedCostTheirClientNothing) {
  std::vector<std::shared_ptr<std::atomic<bool>>> flags;
  for (int idx = 0; idx < 3; ++idx) {
    auto job = std::make_unique<engine::Job>();
    job->client = 1;
    job->work = 7;
    job->queries.resize(1);
    job->collection = Generation(0);
    job->cancelled = std::make_shared<std::atomic<bool>>(true);
    queue_.Push(std::move(job), now_);
  }
  Push(1, 7);
  Push(2, 7);
  EXPECT_THAT(Take(), ElementsAre(1)) << "its turn was not used up by what was cancelled";
  EXPECT_EQ(dropped_.size(), 3u);
  EXPECT_THAT(Take(), ElementsAre(2));
}

TEST_F(FairnessTest, WorkAheadIsWhatWouldBeServedFirst) {
  for (int idx = 0; idx < 10; ++idx) Push(1, 100);
  Push(1, 500, Priority::kHigh);
  Push(1, 300, Priority::kLow);
  // The next job of client 1 must wait for all of this client's earlier jobs.
  EXPECT_EQ(queue_.WorkAhead(Priority::kNormal, 1, 100), 1500u);
  // Client 2 has no job waiting. Its new job must wait for all jobs of higher priority, and for one turn of client 1.
  // That turn has as much work as the new job, or the 1,000 that client 1 has waiting if that is less.
  EXPECT_EQ(queue_.WorkAhead(Priority::kNormal, 2, 100), 600u);
  EXPECT_EQ(queue_.WorkAhead(Priority::kNormal, 2, 5000), 1500u);
  Push(2, 100);
  EXPECT_EQ(queue_.WorkAhead(Priority::kNormal, 2, 100), 500u + 100 + 200);
  EXPECT_EQ(queue_.WorkAhead(Priority::kNormal, 3, 100), 500u + 200);
  EXPECT_EQ(queue_.WorkAhead(Priority::kHigh, 1, 100), 500u);
  EXPECT_EQ(queue_.WorkAhead(Priority::kLow, 1, UINT64_MAX), 500u + 1100 + 300);
}

class MakeRoomTest : public FairnessTest {
 protected:
  bool Ask(uint64_t client, uint64_t work, const QueueSize& bounds, Priority priority = Priority::kNormal) {
    engine::Job job;
    job.client = client;
    job.work = work;
    job.bytes = 1;
    job.priority = priority;
    removed_.clear();
    return queue_.MakeRoom(job, bounds, &removed_);
  }
  std::vector<uint64_t> Removed() const {
    std::vector<uint64_t> works;
    for (const QueuedJob& queued : removed_) works.push_back(queued.job->work);
    return works;
  }
  std::vector<QueuedJob> removed_;
};

TEST_F(MakeRoomTest, TheNewestOfWhoHoldsMostGivesWay) {
  for (const uint64_t work : {10, 20, 30, 40}) Push(1, work);
  Push(2, 5);
  const QueueSize bounds = {.jobs = 5, .work = 1000, .bytes = 1000};
  EXPECT_TRUE(Ask(3, 1, bounds));
  EXPECT_THAT(Removed(), ElementsAre(40));
  EXPECT_EQ(queue_.num_jobs(), 4);
}

TEST_F(MakeRoomTest, AsManyLeaveAsTheJobNeeds) {
  for (int idx = 0; idx < 10; ++idx) Push(1, 10);
  EXPECT_TRUE(Ask(2, 45, {.jobs = 100, .work = 100, .bytes = 1000}));
  EXPECT_THAT(Removed(), ElementsAre(10, 10, 10, 10, 10));
  EXPECT_EQ(queue_.work(), 50u);
}

TEST_F(MakeRoomTest, WhoIsBeyondTheFairShareIsRefused) {
  for (int idx = 0; idx < 10; ++idx) Push(1, 10);
  EXPECT_FALSE(Ask(1, 1, {.jobs = 100, .work = 100, .bytes = 1000})) << "it holds everything";
  EXPECT_FALSE(Ask(2, 51, {.jobs = 100, .work = 100, .bytes = 1000})) << "more than half of the bound";
  EXPECT_THAT(removed_, IsEmpty());
  EXPECT_EQ(queue_.num_jobs(), 10);
}

TEST_F(MakeRoomTest, HigherPrioritiesStayAndLowerOnesGoFirst) {
  Push(1, 10, Priority::kHigh);
  Push(1, 20, Priority::kLow);
  Push(1, 30, Priority::kNormal);
  const QueueSize bounds = {.jobs = 3, .work = 1000, .bytes = 1000};
  EXPECT_TRUE(Ask(2, 1, bounds));
  EXPECT_THAT(Removed(), ElementsAre(20));
  EXPECT_TRUE(Ask(2, 1, {.jobs = 2, .work = 1000, .bytes = 1000}));
  EXPECT_THAT(Removed(), ElementsAre(30));
  EXPECT_FALSE(Ask(2, 1, {.jobs = 1, .work = 1000, .bytes = 1000}));
  EXPECT_THAT(removed_, IsEmpty());
}

}  // namespace
}  // namespace maxsim::batching
