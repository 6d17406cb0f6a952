// Tests the effect of one write, and of many concurrent writes, on a live collection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

class WritesTest : public LiveTest {
 protected:
  WritesTest() {
    Create();
    Open();
  }
};

TEST_F(WritesTest, AreSeenByEveryRequestAfterTheirAnswer) {
  const store::WriteResults results = MustWrite(List(Upsert("a", 1), Upsert("b", 2)));
  EXPECT_EQ(Outcomes(results), "AA");
  EXPECT_EQ(results.sequence, 2u);
  EXPECT_EQ(results.results[1].sequence, 2u);
  EXPECT_EQ(Now(), (Documents{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(Find()->sequence(), 2u);
  EXPECT_EQ(live().state().sequence, 2u);
}

TEST_F(WritesTest, ReplaceTheWholeDocument) {
  MustWrite(List(Upsert("a", 1), Upsert("b", 2), Upsert("a", 13)));
  EXPECT_EQ(Now(), (Documents{{"a", 13}, {"b", 2}}));
  MustWrite(List(Upsert("a", 4)));
  EXPECT_EQ(Now(), (Documents{{"a", 4}, {"b", 2}}));
}

TEST_F(WritesTest, OfOlderVersionsAreStale) {
  EXPECT_EQ(Outcomes(MustWrite(List(Upsert("a", 1, 5)))), "A");
  const store::WriteResults results = MustWrite(List(Upsert("a", 2, 5), Upsert("a", 3, 4), Upsert("b", 4, 1)));
  EXPECT_EQ(Outcomes(results), "SSA");
  EXPECT_EQ(results.results[0].sequence, 0u);
  EXPECT_EQ(results.results[2].sequence, 2u);
  EXPECT_EQ(Outcomes(MustWrite(List(Delete("a", 5), Delete("a", 6), Upsert("a", 7, 6), Upsert("a", 8, 7)))), "SASA");
  EXPECT_EQ(Now(), (Documents{{"a", 8}, {"b", 4}}));
  Reopen();
  EXPECT_EQ(Outcomes(MustWrite(List(Upsert("a", 9, 7), Upsert("b", 9, 2)))), "SA");
}

TEST_F(WritesTest, WithoutAVersionTakeItAway) {
  EXPECT_EQ(Outcomes(MustWrite(List(Upsert("a", 1, 5), Upsert("a", 2), Upsert("a", 3, 1)))), "AAA");
  EXPECT_EQ(Outcomes(MustWrite(List(Upsert("a", 4)))), "A");
  EXPECT_EQ(Outcomes(MustWrite(List(Upsert("a", 5, 1)))), "A");
}

TEST_F(WritesTest, DeleteOfAnUnknownIdIsLoggedOnlyForItsVersion) {
  MustWrite(List(Upsert("a", 1)));
  store::WriteResults results = MustWrite(List(Delete("x"), Delete("a"), Delete("a")));
  EXPECT_EQ(Outcomes(results), "NAN");
  EXPECT_EQ(results.results[0].sequence, 0u);
  EXPECT_EQ(results.sequence, 2u);
  results = MustWrite(List(Delete("x", 7)));
  EXPECT_EQ(Outcomes(results), "N");
  EXPECT_EQ(results.results[0].sequence, 3u);
  EXPECT_EQ(Outcomes(MustWrite(List(Upsert("x", 1, 7), Upsert("x", 2, 8)))), "SA");
  EXPECT_EQ(Now(), (Documents{{"x", 2}}));
}

TEST_F(WritesTest, OfACallThatWritesNothingAreAnswered) {
  EXPECT_EQ(MustWrite({}).sequence, 0u);
  EXPECT_EQ(Outcomes(MustWrite(List(Delete("x")))), "N");
  EXPECT_EQ(live().state().sequence, 0u);
}

TEST_F(WritesTest, OfManyThreadsAreEachVisibleToTheirOwn) {
  constexpr int kThreads = 8;
  constexpr int64_t kWrites = 60;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int64_t n = 0; n < kWrites; ++n) {
        const std::string id = absl::StrCat(thread, "-", n % 20);
        const store::WriteResults results = MustWrite(List(Upsert(id, n), Upsert(absl::StrCat(thread, "-last"), n)));
        const auto seen = Find();
        ASSERT_GE(seen->sequence(), results.sequence);
        const auto ordinal = seen->Find(id);
        ASSERT_TRUE(ordinal.has_value());
        EXPECT_EQ(seen->payload(*ordinal), absl::StrCat("{\"value\":", n, "}"));
        EXPECT_EQ(seen->sequence_of(*ordinal), results.results[0].sequence);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Documents now = Now();
  EXPECT_EQ(now.size(), kThreads * 21u);
  EXPECT_EQ(now.at("3-7"), 47);
  EXPECT_EQ(live().state().sequence, 2u * kThreads * kWrites);
}

TEST_F(WritesTest, OfOneCallBecomeVisibleTogether) {
  MustWrite(List(Upsert("a", 0), Upsert("b", 0)));
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const auto seen = Find();
      EXPECT_EQ(seen->payload(*seen->Find("a")), seen->payload(*seen->Find("b")));
    }
  });
  for (int64_t n = 1; n < 300; ++n) MustWrite(List(Upsert("a", n), Upsert("b", n)));
  done = true;
  reader.join();
}

TEST_F(WritesTest, KeepTheirOrderWithinOneThread) {
  std::vector<std::future<uint64_t>> answers;
  for (int64_t n = 0; n < 100; ++n) {
    auto answer = std::make_shared<std::promise<uint64_t>>();
    answers.push_back(answer->get_future());
    live().Submit(List(Upsert("a", n)), {}, [answer](absl::StatusOr<store::WriteResults> results) {
      answer->set_value(results.ok() ? results->results[0].sequence : 0);
    });
  }
  for (uint64_t n = 0; n < answers.size(); ++n) EXPECT_EQ(answers[n].get(), n + 1);
  EXPECT_EQ(Now(), (Documents{{"a", 99}}));
}

TEST_F(WritesTest, AreThereAfterARestart) {
  for (int64_t n = 0; n < 200; ++n) MustWrite(List(Upsert(absl::StrCat("d", n % 70), n)));
  MustWrite(List(Delete("d3"), Delete("d4")));
  const Documents before = Now();
  ASSERT_EQ(before.size(), 68u);
  Reopen();
  EXPECT_EQ(Now(), before);
  EXPECT_EQ(live().state().sequence, 202u);
  EXPECT_EQ(MustWrite(List(Upsert("d3", 1))).sequence, 203u);
}

TEST_F(WritesTest, LeaveSnapshotsThatWereTakenBeforeAsTheyAre) {
  std::vector<std::pair<std::shared_ptr<const store::Collection>, Documents>> snapshots;
  Documents expected;
  for (int64_t n = 0; n < 60; ++n) {
    const std::string id = absl::StrCat("d", n * 7 % 23);
    if (n % 5 == 4) {
      MustWrite(List(Delete(id)));
      expected.erase(id);
    } else {
      MustWrite(List(Upsert(id, n)));
      expected[id] = n;
    }
    snapshots.emplace_back(Find(), expected);
  }
  for (const auto& [snapshot, documents] : snapshots) EXPECT_EQ(Contents(*snapshot), documents);
}

TEST_F(WritesTest, AreRefusedAfterStopAndAcceptedOnesAreAnswered) {
  std::atomic<int> applied{0};
  std::atomic<int> refused{0};
  for (int64_t n = 0; n < 50; ++n) {
    live().Submit(List(Upsert(absl::StrCat(n), n)), {}, [&](absl::StatusOr<store::WriteResults> results) {
      EXPECT_TRUE(results.ok()) << results.status();
      ++applied;
    });
  }
  live().Stop();
  EXPECT_EQ(applied, 50);
  live().Submit(List(Upsert("late", 1)), {}, [&](absl::StatusOr<store::WriteResults> results) {
    EXPECT_TRUE(absl::IsUnavailable(results.status())) << results.status();
    ++refused;
  });
  EXPECT_EQ(refused, 1);
  live().Stop();
  Reopen();
  EXPECT_EQ(Now().size(), 50u);
}

TEST_F(WritesTest, FindTheLogClosedAfterUnload) {
  MustWrite(List(Upsert("a", 1)));
  const auto kept = live_;  // a service keeps the collection like this for the length of a call
  ASSERT_TRUE(store_->Unload("c").ok());
  Open();
  EXPECT_EQ(Now(), (Documents{{"a", 1}}));
}

TEST_F(WritesTest, BeyondTheQueuesBoundAreToldWhenToComeBack) {
  options_.max_queued_bytes = 4096;
  Reopen();
  std::atomic<int> ok{0};
  std::atomic<int> exhausted{0};
  constexpr int kCalls = 400;
  for (int64_t n = 0; n < kCalls; ++n) {
    std::vector<store::Write> writes;
    for (int64_t idx = 0; idx < 5; ++idx) writes.push_back(Upsert(absl::StrCat(n, "-", idx), n));
    live().Submit(std::move(writes), {}, [&](absl::StatusOr<store::WriteResults> results) {
      if (results.ok()) {
        ++ok;
        return;
      }
      EXPECT_TRUE(absl::IsResourceExhausted(results.status())) << results.status();
      EXPECT_TRUE(client::RetryAfter(results.status()).has_value());
      ++exhausted;
    });
  }
  EXPECT_TRUE(Eventually([&] { return ok + exhausted == kCalls; }));
  EXPECT_GT(ok, 0);
  EXPECT_GT(exhausted, 0);
  EXPECT_EQ(Now().size(), 5u * static_cast<size_t>(ok));
  // A call that is larger than the bound is accepted if no other call waits.
  std::vector<store::Write> large;
  for (int64_t n = 0; n < 200; ++n) large.push_back(Upsert(absl::StrCat("large", n), n));
  EXPECT_EQ(MustWrite(std::move(large)).results.size(), 200u);
}

}  // namespace
}  // namespace maxsim::live
