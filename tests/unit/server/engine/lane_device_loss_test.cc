// Tests a device that is lost before, during and between batches, with both values of OnDeviceLoss.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/devices_fixture.h"

namespace maxsim::engine {
namespace {

using store::OnDeviceLoss;
using testing::HasSubstr;
using testing::IsEmpty;

class LaneDeviceLossTest : public FakeDevicesTest {
 protected:
  static absl::Status Gone() { return absl::UnavailableError("Xid 79"); }
  // Lets the device answer `num_calls` more calls. Every later call reports that the device is lost.
  void LoseAfter(size_t device, int num_calls) {
    auto calls = std::make_shared<std::atomic<int>>(num_calls);
    backend(device).OnTopK(
        [calls](absl::Span<const maxsim::Query>) { return (*calls)-- > 0 ? absl::OkStatus() : Gone(); });
  }
  uint64_t CountOn(uint32_t device) const { return OrdinalsOn(*spread_, device).size(); }

  // Checks that an answer has every document of the other devices, and none of `lost`.
  void ExpectWithout(const JobQueryResult& result, uint32_t lost) {
    EXPECT_EQ(result.num_unavailable, CountOn(lost));
    std::vector<uint64_t> expected;
    for (uint32_t device = 0; device < backends_.size(); ++device) {
      if (device == lost) continue;
      const std::vector<uint64_t> some = OrdinalsOn(*spread_, device);
      expected.insert(expected.end(), some.begin(), some.end());
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(SortedOrdinals(result), expected);
  }
};

TEST_F(LaneDeviceLossTest, WhatIsLeftIsScoredAndTheRestIsCounted) {
  Start(3);
  // The lost device answers its first call, but its results must not be used.
  LoseAfter(1, 1);
  BatchStats stats;
  const auto result = Run(OneQuery(spread_, WholeCollection()), &stats);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectWithout(result->queries[0], 1);
  EXPECT_FALSE(devices_->alive(1));
  EXPECT_TRUE(engine_->Health().ok());
  EXPECT_EQ(stats.devices.size(), 2u) << "a lost device's work does not count";

  // In later batches, the lost device must not be called.
  backend(1).OnTopK(nullptr);
  const size_t calls = num_calls(1);
  const auto next = Run(OneQuery(spread_, WholeCollection()));
  ASSERT_TRUE(next.ok());
  ExpectWithout(next->queries[0], 1);
  EXPECT_EQ(num_calls(1), calls);
  // A job that needs no document of the lost device must be answered completely.
  const std::vector<uint64_t> others = OrdinalsOn(*spread_, 2);
  const auto untouched = Run(OneQuery(spread_, Ordinals(others)));
  ASSERT_TRUE(untouched.ok());
  EXPECT_EQ(untouched->queries[0].num_unavailable, 0u);
  EXPECT_EQ(SortedOrdinals(untouched->queries[0]), others);
}

TEST_F(LaneDeviceLossTest, DocumentsThatWereDeletedAreNotUnavailable) {
  Start(2);
  std::vector<uint64_t> on_lost = OrdinalsOn(*spread_, 1);
  std::vector<uint64_t> deleted(on_lost.begin(), on_lost.begin() + 7);
  deleted.push_back(OrdinalsOn(*spread_, 0).front());
  const auto some = WithDeleted(*spread_, deleted);
  const auto all = WithDeleted(*spread_, on_lost);
  devices_->MarkLost(1, Gone());
  EXPECT_EQ(some->num_unavailable(*devices_), on_lost.size() - 7);
  EXPECT_EQ(all->num_unavailable(*devices_), 0u);
  const auto answer = Run(OneQuery(some, WholeCollection()));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->queries[0].num_unavailable, on_lost.size() - 7);
  EXPECT_EQ(answer->queries[0].hits.size(), OrdinalsOn(*spread_, 0).size() - 1);
  // Every document on the lost device was deleted, so even a job that fails if documents are unavailable succeeds.
  std::unique_ptr<Job> job = OneQuery(all, WholeCollection());
  job->fail_on_unavailable = true;
  const auto whole = Run(std::move(job));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->queries[0].num_unavailable, 0u);
  EXPECT_EQ(SortedOrdinals(whole->queries[0]), OrdinalsOn(*spread_, 0));
}

TEST_F(LaneDeviceLossTest, OfAListTheCandidatesOfTheLostDeviceAreCounted) {
  Start(2);
  devices_->MarkLost(0, Gone());
  const uint64_t lost = OrdinalsOn(*spread_, 0).front();
  const uint64_t left = OrdinalsOn(*spread_, 1).front();
  const auto both = Run(OneQuery(spread_, Ordinals({lost, left}, 5)));
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->queries[0].hits.size(), 1u);
  EXPECT_EQ(both->queries[0].hits[0].ordinal, left);
  EXPECT_EQ(both->queries[0].hits[0].position, 5u) << "positions stay those of the client's list";
  EXPECT_EQ(both->queries[0].num_unavailable, 1u);
  const auto none = Run(OneQuery(spread_, Ordinals({lost})));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(none->queries[0].hits, IsEmpty());
  EXPECT_EQ(none->queries[0].num_unavailable, 1u);
}

TEST_F(LaneDeviceLossTest, AJobThatWantsAllOrNothingIsUnavailable) {
  Start(2);
  LoseAfter(1, 0);
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(OneQuery(spread_, WholeCollection()));
  jobs.push_back(OneQuery(spread_, WholeCollection()));
  jobs.push_back(OneQuery(spread_, Ordinals(OrdinalsOn(*spread_, 0))));
  jobs[0]->fail_on_unavailable = true;
  jobs[2]->fail_on_unavailable = true;
  const auto results = Execute(engine_->lane(0), jobs);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(results[0].status().message(), HasSubstr("queries[0]: " + std::to_string(CountOn(1)) + " candidates"));
  ASSERT_TRUE(results[1].ok());
  ExpectWithout(results[1]->queries[0], 1);
  EXPECT_TRUE(results[2].ok()) << results[2].status();
}

TEST_F(LaneDeviceLossTest, CopiesMoveToTheDevicesThatAreLeft) {
  Start(3);
  const auto expected = Run(OneQuery(copied_, WholeCollection(), true));
  ASSERT_TRUE(expected.ok());
  for (size_t device = 0; device < 2; ++device) {
    LoseAfter(device, 1);
    // Three jobs give the device its turn.
    for (int round = 0; round < 3; ++round) {
      const auto result = Run(OneQuery(copied_, WholeCollection(), true));
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectSameResult(expected->queries[0], result->queries[0]);
      EXPECT_EQ(result->queries[0].num_unavailable, 0u);
    }
    EXPECT_FALSE(devices_->alive(device));
  }
  EXPECT_TRUE(engine_->Health().ok());
}

TEST_F(LaneDeviceLossTest, InlineDocumentsMoveToo) {
  Start(2);
  const auto expected = Run(OneQuery(spread_, Inline(documents_), true));
  ASSERT_TRUE(expected.ok());
  LoseAfter(0, 0);
  LoseAfter(1, 100);
  for (int round = 0; round < 2; ++round) {
    const auto result = Run(OneQuery(spread_, Inline(documents_), true));
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectSameResult(expected->queries[0], result->queries[0]);
  }
  EXPECT_FALSE(devices_->alive(0));
}

TEST_F(LaneDeviceLossTest, ALossWhileAligningTakesTheHitsAlong) {
  Start(2);
  backend(1).OnAlign([] { return Gone(); });
  const auto result = Run(OneQuery(spread_, WholeCollection(), true));
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectWithout(result->queries[0], 1);
  EXPECT_EQ(result->queries[0].matches.size(), 2 * result->queries[0].hits.size());
}

// Another lane (scoring thread) or the device monitor finds during a batch that the device is lost. All calls of this
// batch succeed, but its results from the lost device must not be used.
TEST_F(LaneDeviceLossTest, WhatALostDeviceSaidIsNotBelievedWhoeverFoundOut) {
  Start(2);
  backend(0).OnTopK([this](absl::Span<const maxsim::Query>) {
    devices_->MarkLost(1, Gone());
    return absl::OkStatus();
  });
  const auto result = Run(OneQuery(spread_, WholeCollection()));
  ASSERT_TRUE(result.ok());
  ExpectWithout(result->queries[0], 1);
}

TEST_F(LaneDeviceLossTest, TheLastDeviceIsTheEnd) {
  Start(2);
  devices_->MarkLost(0, absl::UnavailableError("first"));
  LoseAfter(1, 0);
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(OneQuery(spread_, WholeCollection()));
  jobs.push_back(OneQuery(spread_, Inline(documents_)));
  for (const auto& result : Execute(engine_->lane(0), jobs)) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(result.status().message(), "device 0: first");
  }
  EXPECT_EQ(engine_->Health().code(), absl::StatusCode::kUnavailable);
  for (const CandidatesPtr& candidates : {WholeCollection(), Ordinals({1}), Inline(documents_)}) {
    EXPECT_EQ(Run(OneQuery(copied_, candidates)).status().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(LaneDeviceLossTest, WhereALossIsTheEndEveryJobOfTheBatchFails) {
  Start(2, OnDeviceLoss::kExit);
  LoseAfter(1, 0);
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(OneQuery(spread_, Ordinals(OrdinalsOn(*spread_, 0))));
  jobs.push_back(OneQuery(spread_, WholeCollection()));
  for (const auto& result : Execute(engine_->lane(0), jobs)) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(result.status().message(), "device 1: Xid 79");
  }
  EXPECT_EQ(engine_->Health().message(), "device 1: Xid 79");
}

TEST_F(LaneDeviceLossTest, ACancelledJobIsNotScoredAgain) {
  Start(2);
  auto job = OneQuery(copied_, WholeCollection());
  job->cancelled = std::make_shared<std::atomic<bool>>(false);
  const auto lose = [cancelled = job->cancelled](absl::Span<const maxsim::Query>) {
    *cancelled = true;
    return Gone();
  };
  backend(0).OnTopK(lose);
  backend(1).OnTopK(lose);
  EXPECT_EQ(Run(std::move(job)).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(num_calls(0) + num_calls(1), 1u);
}

// Several lanes (scoring threads) score while a device is lost. Each answer must be complete, or lack exactly the lost
// device's documents.
TEST_F(LaneDeviceLossTest, ManyLanesLoseADeviceTogether) {
  constexpr int kLanes = 3;
  Start(3, OnDeviceLoss::kDegrade, kLanes);
  LoseAfter(2, 200);
  std::atomic<int> whole{0};
  std::atomic<int> partial{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int lane = 0; lane < kLanes; ++lane) {
    threads.emplace_back([&, lane] {
      for (int round = 0; round < 60; ++round) {
        std::vector<std::unique_ptr<Job>> jobs;
        jobs.push_back(OneQuery(spread_, WholeCollection(), round % 2 == 0));
        const auto results = Execute(engine_->lane(lane), jobs);
        std::vector<std::unique_ptr<Job>> copies;
        copies.push_back(OneQuery(copied_, WholeCollection()));
        const auto of_copies = Execute(engine_->lane(lane), copies);
        if (!results[0].ok() || !of_copies[0].ok() || of_copies[0]->queries[0].hits.size() != kNumDocuments) {
          ++wrong;
          continue;
        }
        const JobQueryResult& result = results[0]->queries[0];
        if (result.hits.size() + result.num_unavailable != kNumDocuments) ++wrong;
        if (result.num_unavailable == 0) {
          ++whole;
        } else if (result.num_unavailable == CountOn(2)) {
          ++partial;
        } else {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(whole, 0);
  EXPECT_GT(partial, 0);
}

}  // namespace
}  // namespace maxsim::engine
