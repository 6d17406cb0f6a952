// Tests load runs against a model of a server. On a busy machine everything may take longer, so most times are only
// bounded from below.
#include "loadtest/run/run.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/loadtest/modelled_server.h"

namespace maxsim::loadtest {
namespace {

using testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
const std::atomic<bool> kNeverStop{false};

LoadOptions Open(double rate, absl::Duration warmup, absl::Duration duration) {
  LoadOptions load;
  load.mode = Mode::kOpen;
  load.arrivals = Arrivals::kFixed;
  load.rate = rate;
  load.warmup = warmup;
  load.duration = duration;
  load.late_after = absl::Seconds(10);
  return load;
}

RunResult RunModel(
    const LoadOptions& load, const ModelQueue::Behaviour& behaviour, const std::atomic<bool>& stop = kNeverStop,
    const Observer& observe = [](const Interval&) {}) {
  const std::unique_ptr<Workload> workload = OneHitWorkload();
  absl::StatusOr<RunResult> result = RunLoad(
      load, *workload, [&](int) { return std::make_unique<ModelQueue>(behaviour); }, observe, stop);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->all_sent, result->all_answered + result->all_rejected + result->all_errors);
  return *std::move(result);
}

TEST(RunTest, OpenLoopCountsEveryRequestThatWasDue) {
  const RunResult result = RunModel(Open(500, absl::Milliseconds(200), absl::Milliseconds(800)), {});
  EXPECT_EQ(result.counts.answered, 400);
  EXPECT_EQ(result.counts.requests(), 400);
  EXPECT_EQ(result.all_sent, 500);
  EXPECT_EQ(result.latency.count(), 400);
  EXPECT_EQ(result.counts.unsent, 0);
  EXPECT_NEAR(result.rps(), 500, 1e-6);
  EXPECT_EQ(result.kernel.PercentileNs(0.5), 250'000);
}

TEST(RunTest, OpenLoopFeelsAServerThatStandsStill) {
  // The server does not answer for 400 of 1000 ms. A client that waits for each answer would send one request in that
  // time. An open loop sends all 200 that are due, and request k waits for 400 - 2k ms.
  ModelQueue::Behaviour behaviour;
  behaviour.stall_from_ns = NowNs() + 200 * kMs;
  behaviour.stall_until_ns = behaviour.stall_from_ns + 400 * kMs;
  const RunResult result = RunModel(Open(500, absl::ZeroDuration(), absl::Seconds(1)), behaviour);
  EXPECT_EQ(result.counts.answered, 500);
  EXPECT_GE(result.latency.PercentileNs(0.99), 370 * kMs);
  EXPECT_GE(result.latency.PercentileNs(0.80), 180 * kMs);
  EXPECT_GE(result.latency.MeanNs(), 70.0 * kMs);
}

TEST(RunTest, OpenLoopSendsFromSeveralThreadsWhatOneWouldSend) {
  LoadOptions load = Open(300, absl::ZeroDuration(), absl::Seconds(1));
  load.threads = 3;
  const RunResult result = RunModel(load, {});
  EXPECT_EQ(result.counts.answered, 300);
  EXPECT_EQ(result.threads_busy.size(), 3u);
}

TEST(RunTest, OpenLoopCountsSendsThatTheBoundMakesLate) {
  LoadOptions load = Open(1000, absl::ZeroDuration(), absl::Milliseconds(600));
  load.max_in_flight = 2;
  load.late_after = absl::Milliseconds(5);
  std::atomic<int64_t> most{0};
  ModelQueue::Behaviour behaviour;
  behaviour.service_ns = 20 * kMs;  // the time is enough for 30 answers
  behaviour.most_under_way = &most;
  const RunResult result = RunModel(load, behaviour);
  EXPECT_EQ(most, 2);
  EXPECT_EQ(result.counts.requests() + result.counts.unsent, 600);
  EXPECT_GT(result.counts.unsent, 500);
  EXPECT_GE(result.counts.late_at_limit, 10);
  EXPECT_GE(result.latency.PercentileNs(1), 200 * kMs) << "latency counts from the intended time";
  EXPECT_FALSE(result.stability.stable);
  EXPECT_THAT(result.stability.reason, HasSubstr("could not be sent"));
}

// While the server does not answer, as many requests as --max-in-flight allows are waiting. When the load tester sends
// the rest late, that must count as the limit's effect, and not as its own slowness.
TEST(RunTest, OpenLoopThatWasHeldBackIsNotTheBoundWhileItCatchesUp) {
  LoadOptions load = Open(500, absl::ZeroDuration(), absl::Seconds(1));
  load.max_in_flight = 20;
  load.late_after = absl::Milliseconds(50);
  ModelQueue::Behaviour behaviour;
  behaviour.stall_from_ns = NowNs() + 200 * kMs;
  behaviour.stall_until_ns = behaviour.stall_from_ns + 400 * kMs;
  const RunResult result = RunModel(load, behaviour);
  EXPECT_EQ(result.counts.answered, 500);
  EXPECT_GT(result.counts.late, 100);
  EXPECT_GE(result.counts.late_at_limit, result.counts.late * 9 / 10);
}

TEST(RunTest, ClosedLoopKeepsItsRequestsUnderWayAndNoMore) {
  LoadOptions load;
  load.concurrency = 5;
  load.warmup = absl::Milliseconds(100);
  load.duration = absl::Milliseconds(500);
  std::atomic<int64_t> most{0};
  ModelQueue::Behaviour behaviour;
  behaviour.service_ns = 5 * kMs;
  behaviour.most_under_way = &most;
  const RunResult result = RunModel(load, behaviour);
  EXPECT_EQ(most, 5);
  EXPECT_LE(result.counts.answered, 101);  // at most one for each 5 ms
  EXPECT_GE(result.counts.answered, 10);
  EXPECT_EQ(result.counts.queries, result.counts.answered);
  EXPECT_GE(result.latency.PercentileNs(0.5), 24 * kMs) << "each waits for the four before it";
  EXPECT_EQ(result.rate, 0);
}

TEST(RunTest, RejectionsAreCountedApartFromErrors) {
  ModelQueue::Behaviour behaviour;
  behaviour.status = [](int64_t n) -> absl::Status {
    if (n % 4 == 1) return absl::ResourceExhaustedError("queue full");
    if (n % 4 == 2) return absl::UnavailableError("gone away");
    return absl::OkStatus();
  };
  const RunResult result = RunModel(Open(400, absl::ZeroDuration(), absl::Seconds(1)), behaviour);
  EXPECT_EQ(result.counts.answered, 200);
  EXPECT_EQ(result.counts.rejected, 100);
  EXPECT_EQ(result.counts.errors, 100);
  EXPECT_EQ(result.errors[static_cast<size_t>(absl::StatusCode::kUnavailable)], 100);
  EXPECT_EQ(result.first_error[static_cast<size_t>(absl::StatusCode::kUnavailable)], "gone away");
  EXPECT_EQ(result.errors[static_cast<size_t>(absl::StatusCode::kResourceExhausted)], 0);
  EXPECT_EQ(result.latency.count(), 200) << "a rejection is quick, and no answer";
}

TEST(RunTest, SecondsAndThirdsAddUpToTheRun) {
  LoadOptions load = Open(200, absl::ZeroDuration(), absl::Milliseconds(2500));
  std::vector<Interval> told;
  const RunResult result =
      RunModel(load, {}, kNeverStop, [&told](const Interval& interval) { told.push_back(interval); });
  ASSERT_EQ(result.series.size(), 3u);
  EXPECT_EQ(told.size(), 3u);
  double answered = 0;
  for (const Interval& interval : result.series) answered += interval.rps * (interval.end_s - interval.begin_s);
  EXPECT_NEAR(answered, 500, 25);  // the last answers may come after the end
  EXPECT_DOUBLE_EQ(result.series.back().end_s, 2.5);
  ASSERT_EQ(result.stability.thirds.size(), 3u);
  EXPECT_NEAR(result.stability.thirds[0].end_s, 2.5 / 3, 1e-6);
}

TEST(RunTest, AStoppedRunReportsWhatItMeasured) {
  LoadOptions load = Open(200, absl::ZeroDuration(), absl::Hours(1));
  std::atomic<bool> stop{false};
  const RunResult result = RunModel(load, {}, stop, [&stop](const Interval&) { stop = true; });
  EXPECT_GE(result.duration_s, 1);
  EXPECT_LT(result.duration_s, 60);
  EXPECT_NEAR(static_cast<double>(result.counts.answered), 200 * result.duration_s, 2);
  EXPECT_FALSE(result.stability.stable);

  load.warmup = absl::Hours(1);
  const std::unique_ptr<Workload> workload = OneHitWorkload();
  const auto none = RunLoad(
      load, *workload, [](int) { return std::make_unique<ModelQueue>(ModelQueue::Behaviour()); },
      [](const Interval&) {}, stop);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kCancelled);
}

TEST(RunTest, ALoadTesterThatCannotKeepUpSaysSo) {
  LoadOptions load = Open(1000, absl::ZeroDuration(), absl::Milliseconds(900));
  load.late_after = absl::Milliseconds(1);
  ModelQueue::Behaviour behaviour;
  behaviour.start_cost_ns = 2 * kMs;  // leaves 500 a second at best
  const RunResult result = RunModel(load, behaviour);
  EXPECT_TRUE(result.client_bound);
  EXPECT_FALSE(result.client_bound_reason.empty());
  EXPECT_GT(result.client_cpu_s, 0);

  const RunResult idle = RunModel(Open(50, absl::ZeroDuration(), absl::Milliseconds(900)), {});
  EXPECT_FALSE(idle.client_bound) << idle.client_bound_reason;
}

Interval Third(double begin_s, double rps, double p50_us) {
  Interval interval;
  interval.begin_s = begin_s;
  interval.end_s = begin_s + 10;
  interval.rps = rps;
  interval.p50_us = p50_us;
  return interval;
}

TEST(StabilityTest, ThirdsMustAgreeWithinTheirTolerance) {
  EXPECT_TRUE(CheckStability({Third(0, 1000, 200), Third(10, 1030, 210), Third(20, 990, 219)}, false).stable);
  const Stability slower = CheckStability({Third(0, 1000, 200), Third(10, 1000, 200), Third(20, 880, 200)}, false);
  EXPECT_FALSE(slower.stable);
  EXPECT_THAT(slower.reason, HasSubstr("880.0 answers a second from 20.0 s on"));
  const Stability later = CheckStability({Third(0, 1000, 200), Third(10, 1000, 221), Third(20, 1000, 200)}, false);
  EXPECT_FALSE(later.stable);
  EXPECT_THAT(later.reason, HasSubstr("median"));
  EXPECT_FALSE(CheckStability({Third(0, 1, 1), Third(10, 1, 1)}, false).stable);
  EXPECT_FALSE(CheckStability({Third(0, 0, 1), Third(10, 1, 1), Third(20, 1, 1)}, false).stable);
}

TEST(StabilityTest, FewPoissonArrivalsVaryByChance) {
  const std::vector<Interval> thirds = {Third(0, 10, 200), Third(10, 12, 200), Third(20, 8, 200)};
  const Stability open = CheckStability(thirds, true);
  EXPECT_TRUE(open.stable) << open.reason;
  EXPECT_NEAR(open.rate_tolerance, 4 / std::sqrt(80), 1e-9);
  EXPECT_FALSE(CheckStability(thirds, false).stable);
}

}  // namespace
}  // namespace maxsim::loadtest
