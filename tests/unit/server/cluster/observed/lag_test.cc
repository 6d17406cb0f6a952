#include "server/cluster/observed/lag.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(1) * seconds; }

TEST(SequenceHistoryTest, AServerIsMeasuredByWhatWasKnownWhenItWasAsked) {
  SequenceHistory history(absl::Hours(1));
  EXPECT_EQ(history.LagOf(5, 0, At(100)), Lag{}) << "nothing is known";
  history.Note(10, At(100));
  history.Note(30, At(200));
  EXPECT_EQ(history.LagOf(10, 0, At(200)), Lag{}) << "the write may have come after the answer";
  EXPECT_EQ(history.LagOf(10, 0, At(201)), (Lag{.writes = 20, .time = absl::Seconds(1)}));
  EXPECT_EQ(history.LagOf(9, 0, At(150)), (Lag{.writes = 1, .time = absl::Seconds(50)}));
  EXPECT_EQ(history.LagOf(9, 0, At(250)), (Lag{.writes = 21, .time = absl::Seconds(150)}));
  EXPECT_EQ(history.LagOf(30, 0, At(250)), Lag{});
  EXPECT_EQ(history.LagOf(31, 0, At(250)), Lag{}) << "it is ahead of what is known";
}

TEST(SequenceHistoryTest, AServersOwnReportCountsIfItIsWorse) {
  SequenceHistory history(absl::Hours(1));
  history.Note(10, At(100));
  EXPECT_EQ(history.LagOf(10, 7, At(200)).writes, 7);
  EXPECT_EQ(history.LagOf(1, 7, At(200)).writes, 9);
}

TEST(SequenceHistoryTest, SequencesThatAreReportedAgainOrGoBackAddNothing) {
  SequenceHistory history(absl::Hours(1));
  history.Note(10, At(100));
  history.Note(10, At(200));
  history.Note(4, At(300));
  EXPECT_EQ(history.LagOf(9, 0, At(400)), (Lag{.writes = 1, .time = absl::Seconds(300)}));
  EXPECT_EQ(history.LagOf(10, 0, At(400)), Lag{});
}

TEST(SequenceHistoryTest, ALagIsNeverLongerThanItIsAndShorterByLittle) {
  const absl::Duration length = absl::Seconds(1024);
  SequenceHistory history(length);
  // There is a write every 10 ms for an hour. The history keeps about one point per second.
  for (int i = 1; i <= 360'000; ++i) history.Note(static_cast<uint64_t>(i), At(i / 100.0));
  for (const int behind_s : {1, 2, 10, 100, 1000}) {
    const auto sequence = static_cast<uint64_t>(360'000 - 100 * behind_s);
    const Lag lag = history.LagOf(sequence, 0, At(3600.001));
    EXPECT_LE(lag.time, absl::Seconds(behind_s)) << behind_s;
    EXPECT_GE(lag.time, absl::Seconds(behind_s) - absl::Milliseconds(2100)) << behind_s;
    EXPECT_LE(lag.writes, 100 * behind_s) << behind_s;
  }
  EXPECT_GE(history.LagOf(1, 0, At(3600)).time, length - absl::Seconds(3)) << "what is longer ago counts as the length";
}

TEST(LagTrackerTest, EachBoundHoldsByItself) {
  const LagTracker both({.writes = 100, .time = absl::Seconds(10)});
  EXPECT_EQ(both.Excess({.writes = 100, .time = absl::Seconds(10)}), "");
  EXPECT_THAT(both.Excess({.writes = 101, .time = {}}), HasSubstr("101 writes behind, but the limit is 100"));
  EXPECT_THAT(both.Excess({.writes = 1, .time = absl::Seconds(11)}), HasSubstr("behind for 11s, but the limit is 10s"));
  const LagTracker none({});
  EXPECT_EQ(none.Excess({.writes = 1'000'000, .time = absl::Hours(1)}), "");
}

TEST(LagTrackerTest, EachCollectionHasItsOwnHistory) {
  LagTracker lags({.writes = 1, .time = absl::Seconds(1)});
  lags.Note("a", 10, At(1));
  lags.Note("b", 20, At(1));
  EXPECT_EQ(lags.LagOf("a", 9, 0, At(2)).writes, 1);
  EXPECT_EQ(lags.LagOf("b", 9, 0, At(2)).writes, 11);
  EXPECT_EQ(lags.LagOf("c", 9, 3, At(2)), (Lag{.writes = 3, .time = {}}));
}

}  // namespace
}  // namespace maxsim::cluster
