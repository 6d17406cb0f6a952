#include "server/cluster/observed/latency_window.h"

#include <cmath>

#include "gtest/gtest.h"

namespace maxsim::cluster {
namespace {

TEST(LatencyWindowTest, ThereIsNoPercentileOfTooFewValues) {
  LatencyWindow window;
  for (uint64_t i = 0; i + 1 < LatencyWindow::kMinValues; ++i) window.Add(absl::Milliseconds(1));
  window.Turn(absl::UnixEpoch(), 0.95);
  EXPECT_EQ(window.percentile(), absl::InfiniteDuration());
  window.Add(absl::Milliseconds(1));
  window.Turn(absl::UnixEpoch(), 0.95);
  EXPECT_LT(window.percentile(), absl::Milliseconds(2));
}

TEST(LatencyWindowTest, ThePercentileIsOffByABucketAtMost) {
  for (const double share : {0.5, 0.95, 0.99}) {
    LatencyWindow window;
    for (int us = 1; us <= 100'000; ++us) window.Add(absl::Microseconds(us));
    window.Turn(absl::UnixEpoch(), share);
    const double us = absl::ToDoubleMicroseconds(window.percentile());
    EXPECT_GE(us, share * 100'000);
    EXPECT_LE(us, share * 100'000 * 1.13);
  }
}

TEST(LatencyWindowTest, ExtremeDurationsHaveABucket) {
  LatencyWindow window;
  for (int i = 0; i < 20; ++i) {
    window.Add(-absl::Seconds(1));
    window.Add(absl::Hours(100));
  }
  window.Turn(absl::UnixEpoch(), 0.25);
  EXPECT_LE(window.percentile(), absl::Microseconds(1));
  window.Turn(absl::UnixEpoch(), 0.95);
  EXPECT_GT(window.percentile(), absl::Minutes(30));
}

TEST(LatencyWindowTest, OldValuesAreForgottenAfterTwoIntervals) {
  LatencyWindow window;
  for (int i = 0; i < 1000; ++i) window.Add(absl::Seconds(1));
  absl::Time now = absl::UnixEpoch();
  window.Turn(now, 0.95);
  for (int i = 0; i < 100; ++i) window.Add(absl::Milliseconds(1));
  window.Turn(now += LatencyWindow::kInterval, 0.95);
  EXPECT_GT(window.percentile(), absl::Milliseconds(500));
  for (int i = 0; i < 100; ++i) window.Add(absl::Milliseconds(1));
  window.Turn(now += LatencyWindow::kInterval, 0.95);
  window.Turn(now, 0.95);
  EXPECT_LT(window.percentile(), absl::Milliseconds(2));
}

}  // namespace
}  // namespace maxsim::cluster
