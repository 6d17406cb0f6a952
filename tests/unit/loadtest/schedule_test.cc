#include "loadtest/random/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "loadtest/random/token_counts.h"

namespace maxsim::loadtest {
namespace {

std::vector<int64_t> First(Schedule schedule, int count) {
  std::vector<int64_t> times;
  for (int i = 0; i < count; ++i) times.push_back(schedule.NextNs());
  return times;
}

TEST(ScheduleTest, FixedArrivalsAreEvenlySpacedOverAllThreads) {
  std::vector<int64_t> times;
  for (int part = 0; part < 3; ++part) {
    const std::vector<int64_t> own = First(Schedule(Arrivals::kFixed, 1000, part, 3, 1), 100);
    times.insert(times.end(), own.begin(), own.end());
  }
  std::sort(times.begin(), times.end());
  for (size_t i = 0; i < times.size(); ++i) EXPECT_NEAR(times[i], 1e6 * static_cast<double>(i), 1) << i;
}

TEST(ScheduleTest, FixedArrivalsDoNotDriftOverALongRun) {
  Schedule schedule(Arrivals::kFixed, 3, 0, 1, 1);
  int64_t last = 0;
  for (int i = 0; i <= 3'000'000; ++i) last = schedule.NextNs();
  EXPECT_NEAR(static_cast<double>(last), 1e15, 1);
}

TEST(ScheduleTest, PoissonGapsHaveTheMeanAndTheSpreadOfAnExponential) {
  constexpr int kCount = 100'000;
  const std::vector<int64_t> times = First(Schedule(Arrivals::kPoisson, 5000, 1, 2, 42), kCount);
  double sum = 0, squares = 0;
  int beyond_mean = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double gap_s = static_cast<double>(times[i] - (i == 0 ? 0 : times[i - 1])) * 1e-9;
    ASSERT_GE(gap_s, 0);
    sum += gap_s;
    squares += gap_s * gap_s;
    beyond_mean += gap_s > 1 / 2500.0 ? 1 : 0;
  }
  const double mean = sum / kCount;
  const double deviation = std::sqrt(squares / kCount - mean * mean);
  // The schedule is one of two parts, so it has half of the rate. Four standard errors of the mean are 1.3 %.
  EXPECT_NEAR(mean * 2500, 1, 0.013);
  EXPECT_NEAR(deviation * 2500, 1, 0.03);
  EXPECT_NEAR(beyond_mean / static_cast<double>(kCount), std::exp(-1), 0.006);
}

TEST(ScheduleTest, PartsTogetherAreAPoissonProcessOfTheWholeRate) {
  // In a Poisson process, the number of events in a window has a variance equal to its mean.
  constexpr int kParts = 4, kWindows = 2000;
  constexpr double kRate = 10'000, kPerWindow = 20;
  std::vector<double> counts(kWindows);
  for (int part = 0; part < kParts; ++part) {
    Schedule schedule(Arrivals::kPoisson, kRate, part, kParts, 9);
    while (true) {
      const auto window = static_cast<size_t>(static_cast<double>(schedule.NextNs()) * 1e-9 * kRate / kPerWindow);
      if (window >= kWindows) break;
      ++counts[window];
    }
  }
  double sum = 0, squares = 0;
  for (const double count : counts) {
    sum += count;
    squares += count * count;
  }
  const double mean = sum / kWindows;
  EXPECT_NEAR(mean, kPerWindow, 0.4);
  EXPECT_NEAR((squares / kWindows - mean * mean) / mean, 1, 0.13);
}

TEST(ScheduleTest, ASeedGivesTheSameTimesAndAnotherOthers) {
  const auto times = [](int part, uint64_t seed) {
    return First(Schedule(Arrivals::kPoisson, 100, part, 2, seed), 50);
  };
  EXPECT_EQ(times(0, 1), times(0, 1));
  EXPECT_NE(times(0, 1), times(0, 2));
  EXPECT_NE(times(0, 1), times(1, 1));
}

TEST(TokenCountsTest, SamplesAreInBoundsWithTheirMean) {
  Random random(5);
  const auto mean_of = [&random](const std::string& text, uint32_t low, uint32_t high) {
    const absl::StatusOr<TokenCounts> counts = TokenCounts::Parse(text);
    EXPECT_TRUE(counts.ok()) << counts.status();
    double sum = 0;
    for (int i = 0; i < 50'000; ++i) {
      const uint32_t count = counts->Sample(random);
      EXPECT_GE(count, low);
      EXPECT_LE(count, high);
      sum += count;
    }
    EXPECT_EQ(counts->max(), high);
    return sum / 50'000;
  };
  EXPECT_EQ(mean_of("32", 32, 32), 32);
  EXPECT_NEAR(mean_of("uniform:8:64", 8, 64), 36, 0.4);
  EXPECT_EQ(mean_of("uniform:5:5", 5, 5), 5);
  EXPECT_NEAR(mean_of("lognormal:100:1:65536", 1, 65536), 100, 1);
  EXPECT_NEAR(mean_of("lognormal:100:50:150", 50, 150), 95, 3);
}

TEST(TokenCountsTest, RefusesWhatIsNoDistribution) {
  for (const char* text : {"", "0", "-1", "65537", "x", "uniform", "uniform:8", "uniform:9:8", "uniform:0:8",
                           "uniform:1:2:3", "lognormal:5:6:9", "lognormal:10:6:9", "lognormal:7:6", "normal:1:2"}) {
    const absl::StatusOr<TokenCounts> counts = TokenCounts::Parse(text);
    ASSERT_FALSE(counts.ok()) << text;
    EXPECT_NE(counts.status().message().find(text), absl::string_view::npos) << counts.status();
  }
}

}  // namespace
}  // namespace maxsim::loadtest
