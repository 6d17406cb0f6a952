// Tests the search for the highest rate (the sweep) against simulated servers with known capacities.
#include "loadtest/run/sweep.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/random/schedule.h"

namespace maxsim::loadtest {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;

// Simulates a server that handles one request at a time, each in `service_ns`. Requests arrive for 20 s as a Poisson
// process.
RunResult Simulate(double rate, int64_t service_ns) {
  RunResult result;
  result.rate = rate;
  result.duration_s = 20;
  Schedule schedule(Arrivals::kPoisson, rate, 0, 1, 17);
  int64_t free_ns = 0;
  for (int64_t due_ns = schedule.NextNs(); due_ns < 20'000 * kMillisecondNs; due_ns = schedule.NextNs()) {
    free_ns = std::max(free_ns, due_ns) + service_ns;
    result.latency.Record(free_ns - due_ns);
    ++result.counts.answered;
  }
  return result;
}

// Simulates a server that answers up to `capacity` requests per second, all in the same time, and rejects the rest.
RunResult Bounded(double rate, double capacity) {
  RunResult result;
  result.rate = rate;
  result.duration_s = 1;
  result.counts.answered = static_cast<int64_t>(std::min(rate, capacity));
  result.counts.rejected = static_cast<int64_t>(std::max(0.0, rate - capacity));
  for (int64_t i = 0; i < result.counts.answered; ++i) result.latency.Record(kMillisecondNs);
  return result;
}

TEST(SweepTest, FindsTheRateAtWhichAQueueReachesTheTarget) {
  const auto measure = [](double rate) -> absl::StatusOr<RunResult> { return Simulate(rate, kMillisecondNs); };
  for (const double first : {10.0, 100.0, 950.0, 64'000.0}) {
    const auto sweep = FindHighestRate({.first_rate = first, .target_p99 = absl::Milliseconds(10), .precision = 0.02},
                                       measure, [](const SweepStep&) {});
    ASSERT_TRUE(sweep.ok());
    ASSERT_GE(sweep->best, 0);
    const double best = sweep->steps[static_cast<size_t>(sweep->best)].rate;
    EXPECT_LE(Simulate(best, kMillisecondNs).latency.PercentileNs(0.99), 10 * kMillisecondNs);
    EXPECT_GT(Simulate(best * 1.021, kMillisecondNs).latency.PercentileNs(0.99), 10 * kMillisecondNs)
        << "from " << first;
    EXPECT_LT(best, 1000) << "more than the capacity";
    EXPECT_TRUE(sweep->converged) << sweep->converged_reason;
    EXPECT_EQ(sweep->converged_reason, "");
    // The sweep doubles or halves the rate until it has passed the limit. Then it halves the interval between the
    // highest rate that held and the lowest that did not, until its width is 2 %.
    EXPECT_LE(sweep->steps.size(), 2 + std::abs(std::log2(1000 / first)) + 6);
  }
}

TEST(SweepTest, RejectionsErrorsAndUnsentRequestsDoNotHold) {
  const auto sweep = FindHighestRate(
      {.first_rate = 100, .target_p99 = absl::Milliseconds(10), .precision = 0.01},
      [](double rate) -> absl::StatusOr<RunResult> { return Bounded(rate, 3000); }, [](const SweepStep&) {});
  ASSERT_TRUE(sweep.ok());
  EXPECT_NEAR(sweep->steps[static_cast<size_t>(sweep->best)].rate, 3000, 30);

  RunResult result = Bounded(100, 1000);
  EXPECT_EQ(WhyNotHeld(result, absl::Milliseconds(1)), "");
  EXPECT_NE(WhyNotHeld(result, absl::Microseconds(999)), "");
  result.counts.errors = 1;
  EXPECT_EQ(WhyNotHeld(result, absl::Milliseconds(1)), "1 errors");
  result.counts.errors = 0;
  result.counts.unsent = 1;
  EXPECT_NE(WhyNotHeld(result, absl::Milliseconds(1)), "");
  EXPECT_EQ(WhyNotHeld(RunResult(), absl::Milliseconds(1)), "no answer");
}

TEST(SweepTest, StepsAreReportedInTheOrderTheyWereTried) {
  std::vector<double> told;
  const auto sweep = FindHighestRate(
      {.first_rate = 400, .target_p99 = absl::Milliseconds(10), .precision = 0.2},
      [](double rate) -> absl::StatusOr<RunResult> { return Bounded(rate, 1000); },
      [&told](const SweepStep& step) { told.push_back(step.rate); });
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(told, (std::vector<double>{400, 800, 1600, 1200, 1000}));
  EXPECT_EQ(sweep->steps[static_cast<size_t>(sweep->best)].rate, 1000);
}

TEST(SweepTest, ALoadTesterThatIsTheBoundIsSaid) {
  const auto sweep = FindHighestRate(
      {.first_rate = 100, .target_p99 = absl::Milliseconds(10), .precision = 0.05},
      [](double rate) -> absl::StatusOr<RunResult> {
        RunResult result = Simulate(rate, kMillisecondNs);
        result.client_bound = rate > 600;
        if (result.client_bound) {
          result.client_bound_reason = "late";
          result.latency.Record(1000 * kMillisecondNs);
          for (int i = 0; i < 2000; ++i) result.latency.Record(1000 * kMillisecondNs);
        }
        return result;
      },
      [](const SweepStep&) {});
  ASSERT_TRUE(sweep.ok());
  EXPECT_LE(sweep->steps[static_cast<size_t>(sweep->best)].rate, 600);
  EXPECT_TRUE(sweep->client_bound);
  EXPECT_THAT(sweep->client_bound_reason, testing::MatchesRegex("at [0-9.]+ requests/s, late"));
}

TEST(SweepTest, NoRateHoldsWhenTheServerIsSlowerThanTheTarget) {
  int runs = 0;
  const auto sweep = FindHighestRate(
      {.first_rate = 100, .target_p99 = absl::Microseconds(500)},
      [&runs](double rate) -> absl::StatusOr<RunResult> {
        ++runs;
        return Simulate(rate, kMillisecondNs);
      },
      [](const SweepStep&) {});
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(sweep->best, -1);
  EXPECT_EQ(runs, 10);  // the rate goes down to a thousandth
  EXPECT_FALSE(sweep->converged);
  EXPECT_EQ(sweep->converged_reason, "no rate from 100 down to a thousandth of it held");
}

TEST(SweepTest, ARateThatIsTheHighestTriedIsNotTheHighestThatHolds) {
  const auto sweep = FindHighestRate(
      {.first_rate = 4e6, .target_p99 = absl::Milliseconds(10)},
      [](double rate) -> absl::StatusOr<RunResult> { return Bounded(rate / 1e4, 1e9); }, [](const SweepStep&) {});
  ASSERT_TRUE(sweep.ok());
  ASSERT_EQ(sweep->best, 1);
  EXPECT_EQ(sweep->steps[1].rate, 8e6);
  EXPECT_FALSE(sweep->converged);
  EXPECT_EQ(sweep->converged_reason, "rates above 1e+07 are not tried");
}

TEST(SweepTest, AnErrorEndsItWithWhatThereIs) {
  int runs = 0;
  const auto measure = [&runs](double rate) -> absl::StatusOr<RunResult> {
    if (++runs == 3) return absl::CancelledError("stop");
    return Bounded(rate, 1e6);
  };
  const auto sweep =
      FindHighestRate({.first_rate = 100, .target_p99 = absl::Milliseconds(10)}, measure, [](const SweepStep&) {});
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(sweep->steps.size(), 2u);
  EXPECT_EQ(sweep->best, 1);
  EXPECT_FALSE(sweep->converged) << "it was ended while it looked for more";
  EXPECT_EQ(sweep->converged_reason, "stop");
  const auto first = FindHighestRate(
      {.first_rate = 100, .target_p99 = absl::Milliseconds(10)},
      [](double) -> absl::StatusOr<RunResult> { return absl::CancelledError("stop"); }, [](const SweepStep&) {});
  EXPECT_EQ(first.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace maxsim::loadtest
