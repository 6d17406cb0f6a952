#include "loadtest/run/run.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadtest/run/machine.h"
#include "loadtest/run/worker.h"

namespace maxsim::loadtest {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// The run begins this long after the threads are started, so that all of them are ready by then.
constexpr int64_t kLeadNs = 20'000'000;
// The load tester counts as the bottleneck if one of these limits is exceeded: the busy share of a sending thread, the
// busy share of the whole process, or the share of late sends. The first two are below 1, because a thread cannot use
// all of its processor: it waits for the kernel, and gRPC's own threads use the processor too.
constexpr double kBusyThread = 0.9;
constexpr double kBusyProcess = 0.9;
constexpr double kLateShare = 0.01;

constexpr double kRateTolerance = 0.05;
constexpr double kP50Tolerance = 0.10;

double Us(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

class Run {
 public:
  Run(const LoadOptions& options, const Workload& workload, const QueueFactory& make_queue) : options_(options) {
    options_.threads =
        std::max(1, options.mode == Mode::kClosed ? std::min(options.threads, options.concurrency) : options.threads);
    for (int i = 0; i < options_.threads; ++i) {
      stats_.push_back(std::make_unique<ThreadStats>());
      workers_.push_back(std::make_unique<Worker>(options_, i, clock_, workload, make_queue(i), *stats_.back()));
    }
  }

  absl::StatusOr<RunResult> Go(const Observer& observe, const std::atomic<bool>& stop) {
    clock_.start_ns = NowNs() + kLeadNs;
    clock_.begin_ns = clock_.start_ns + absl::ToInt64Nanoseconds(options_.warmup);
    clock_.end_ns = clock_.begin_ns + absl::ToInt64Nanoseconds(options_.duration);
    std::vector<std::thread> threads;
    for (const std::unique_ptr<Worker>& worker : workers_) threads.emplace_back([&worker] { worker->Run(); });
    const bool begun = WarmUp(observe, stop);
    if (begun) {
      Measure(observe, stop);
    } else {
      clock_.end_ns = NowNs();
    }
    for (std::thread& thread : threads) thread.join();
    if (!begun) return absl::CancelledError("the run was stopped during its warm-up");
    Conclude();
    return std::move(result_);
  }

 private:
  // Returns false if `stop` was set before that time.
  static bool SleepUntil(int64_t time_ns, const std::atomic<bool>& stop) {
    for (int64_t now_ns = NowNs(); now_ns < time_ns; now_ns = NowNs()) {
      if (stop.load(std::memory_order_relaxed)) return false;
      SleepUntilNs(std::min(time_ns, now_ns + kSecondNs / 20));
    }
    return true;
  }

  bool WarmUp(const Observer& observe, const std::atomic<bool>& stop) {
    int64_t answered_before = 0, rejected_before = 0, errors_before = 0;
    for (int64_t from_ns = clock_.start_ns; from_ns < clock_.begin_ns;) {
      const int64_t until_ns = std::min(from_ns + kSecondNs, clock_.begin_ns);
      if (!SleepUntil(until_ns, stop)) return false;
      Interval interval = Between(from_ns, until_ns);
      interval.warmup = true;
      int64_t answered = 0;
      for (const auto& stats : stats_) {
        answered += stats->all_answered.value();
        interval.rejected += stats->all_rejected.value();
        interval.errors += stats->all_errors.value();
      }
      interval.rps = static_cast<double>(answered - answered_before) / (interval.end_s - interval.begin_s);
      answered_before = answered;
      interval.rejected -= std::exchange(rejected_before, interval.rejected);
      interval.errors -= std::exchange(errors_before, interval.errors);
      observe(interval);
      from_ns = until_ns;
    }
    return true;
  }

  // Reads the counters at every second and at every third of the run.
  void Measure(const Observer& observe, const std::atomic<bool>& stop) {
    const int64_t duration_ns = clock_.end_ns - clock_.begin_ns;
    const double cpu_before_s = ProcessCpuSeconds();
    const MachineTicks ticks_before = ReadMachineTicks();
    Snapshot second_before, third_before;
    int64_t second_from_ns = clock_.begin_ns, third_from_ns = clock_.begin_ns;
    int thirds = 0;
    while (thirds < 3) {
      const int64_t second_until_ns = std::min(second_from_ns + kSecondNs, clock_.end_ns.load());
      const int64_t third_until_ns = clock_.begin_ns + duration_ns * (thirds + 1) / 3;
      const bool in_time = SleepUntil(std::min(second_until_ns, third_until_ns), stop);
      if (!in_time) clock_.end_ns = std::max(NowNs(), clock_.begin_ns + 1);
      const int64_t now_ns = in_time ? std::min(second_until_ns, third_until_ns) : clock_.end_ns.load();
      Snapshot now = Take();
      if (now_ns == third_until_ns || !in_time) {
        result_.stability.thirds.push_back(Delta(third_from_ns, now_ns, third_before, now));
        third_before = now;
        third_from_ns = now_ns;
        thirds = in_time ? thirds + 1 : 3;
      }
      if (now_ns == second_until_ns || !in_time) {
        result_.series.push_back(Delta(second_from_ns, now_ns, second_before, now));
        observe(result_.series.back());
        second_before = std::move(now);
        second_from_ns = now_ns;
      }
    }
    result_.duration_s = static_cast<double>(clock_.end_ns - clock_.begin_ns) * 1e-9;
    result_.client_cpu_s = ProcessCpuSeconds() - cpu_before_s;
    result_.machine_busy = BusyShare(ticks_before, ReadMachineTicks());
  }

  Interval Between(int64_t from_ns, int64_t until_ns) const {
    Interval interval;
    interval.begin_s = static_cast<double>(from_ns - clock_.begin_ns) * 1e-9;
    interval.end_s = static_cast<double>(until_ns - clock_.begin_ns) * 1e-9;
    for (const auto& stats : stats_) {
      // `done` is read first, so that answers that come meanwhile do not make the difference negative.
      const int64_t done = stats->done.value();
      interval.in_flight += std::max<int64_t>(0, stats->sent.value() - done);
    }
    return interval;
  }

  Interval Delta(int64_t from_ns, int64_t until_ns, const Snapshot& before, const Snapshot& now) const {
    Interval interval = Between(from_ns, until_ns);
    const double seconds = std::max(interval.end_s - interval.begin_s, 1e-9);
    interval.rps = static_cast<double>(now.counts.answered - before.counts.answered) / seconds;
    interval.qps = static_cast<double>(now.counts.queries - before.counts.queries) / seconds;
    interval.rejected = now.counts.rejected - before.counts.rejected;
    interval.errors = now.counts.errors - before.counts.errors;
    Histogram latency = now.latency;
    latency.Subtract(before.latency);
    interval.p50_us = Us(latency.PercentileNs(0.5));
    interval.p99_us = Us(latency.PercentileNs(0.99));
    return interval;
  }

  Snapshot Take() const {
    Snapshot snapshot;
    for (const auto& stats : stats_) {
      snapshot.counts.answered += stats->answered.value();
      snapshot.counts.queries += stats->queries.value();
      snapshot.counts.rejected += stats->rejected.value();
      for (const Counter& errors : stats->errors) snapshot.counts.errors += errors.value();
      snapshot.counts.late += stats->late.value();
      snapshot.counts.late_at_limit += stats->late_at_limit.value();
      snapshot.counts.unsent += stats->unsent.value();
      stats->latency.AddTo(snapshot.latency);
    }
    return snapshot;
  }

  // Sums up the threads' counts, and judges them. The threads must have ended.
  void Conclude() {
    result_.rate = options_.mode == Mode::kClosed ? 0 : options_.rate;
    Snapshot all = Take();
    result_.counts = all.counts;
    result_.latency = std::move(all.latency);
    for (const auto& stats : stats_) {
      stats->server_total.AddTo(result_.server_total);
      stats->server_queue.AddTo(result_.server_queue);
      stats->copy.AddTo(result_.copy);
      stats->kernel.AddTo(result_.kernel);
      result_.all_sent += stats->sent.value();
      result_.all_answered += stats->all_answered.value();
      result_.all_rejected += stats->all_rejected.value();
      result_.all_errors += stats->all_errors.value();
      result_.all_wrong += stats->all_wrong.value();
      result_.threads_busy.push_back(std::max(stats->sender.busy(), stats->receiver.busy()));
      for (size_t code = 0; code < kNumCodes; ++code) {
        result_.errors[code] += stats->errors[code].value();
        if (result_.first_error[code].empty()) result_.first_error[code] = stats->first_error[code];
      }
    }
    const std::vector<Interval> thirds = std::move(result_.stability.thirds);
    result_.stability = CheckStability(thirds, options_.mode != Mode::kClosed);
    if (result_.counts.unsent > 0) {
      result_.stability.stable = false;
      result_.stability.reason = absl::StrCat(result_.counts.unsent, " requests were due and could not be sent");
    }
    result_.client_bound_reason = BoundReason();
    result_.client_bound = !result_.client_bound_reason.empty();
  }

  std::string BoundReason() const {
    const auto busiest = std::max_element(result_.threads_busy.begin(), result_.threads_busy.end());
    if (*busiest >= kBusyThread) {
      return absl::StrFormat("sending thread %d was on a processor %.0f %% of the time (limit %.0f %%): more --threads",
                             busiest - result_.threads_busy.begin(), 100 * *busiest, 100 * kBusyThread);
    }
    const double processors = result_.client_cpu_s / std::max(result_.duration_s, 1e-9);
    if (processors >= kBusyProcess * NumProcessors()) {
      return absl::StrFormat("the load tester used %.1f of its %d processors (limit %.0f %%)", processors,
                             NumProcessors(), 100 * kBusyProcess);
    }
    const int64_t late = result_.counts.late - result_.counts.late_at_limit;
    const int64_t requests = result_.counts.requests();
    if (static_cast<double>(late) > kLateShare * static_cast<double>(requests)) {
      return absl::StrFormat("%d of %d sends were more than %s late because the processor was busy (limit %.0f %%)",
                             late, requests, absl::FormatDuration(options_.late_after), 100 * kLateShare);
    }
    return "";
  }

  LoadOptions options_;
  RunClock clock_;
  std::vector<std::unique_ptr<ThreadStats>> stats_;
  std::vector<std::unique_ptr<Worker>> workers_;
  RunResult result_;
};

}  // namespace

Stability CheckStability(const std::vector<Interval>& thirds, bool open_loop) {
  Stability stability;
  stability.thirds = thirds;
  stability.p50_tolerance = kP50Tolerance;
  stability.rate_tolerance = kRateTolerance;
  if (thirds.size() != 3) {
    stability.reason = "the run was ended early";
    return stability;
  }
  double mean_rps = 0, fewest_answers = INFINITY, lowest_p50 = INFINITY, highest_p50 = 0;
  for (const Interval& third : thirds) {
    mean_rps += third.rps / 3;
    fewest_answers = std::min(fewest_answers, third.rps * (third.end_s - third.begin_s));
    lowest_p50 = std::min(lowest_p50, third.p50_us);
    highest_p50 = std::max(highest_p50, third.p50_us);
  }
  if (fewest_answers < 1) {
    stability.reason = "a third of the run had no answer";
    return stability;
  }
  if (open_loop) stability.rate_tolerance = std::max(kRateTolerance, 4 / std::sqrt(fewest_answers));
  for (const Interval& third : thirds) {
    if (std::abs(third.rps - mean_rps) <= stability.rate_tolerance * mean_rps) continue;
    stability.reason =
        absl::StrFormat("%.1f answers a second from %.1f s on, and %.1f over the run (tolerance %.0f %%)", third.rps,
                        third.begin_s, mean_rps, 100 * stability.rate_tolerance);
    return stability;
  }
  if (highest_p50 > (1 + kP50Tolerance) * lowest_p50) {
    stability.reason = absl::StrFormat("the median latency was between %.0f and %.0f us (tolerance %.0f %%)",
                                       lowest_p50, highest_p50, 100 * kP50Tolerance);
    return stability;
  }
  stability.stable = true;
  return stability;
}

absl::StatusOr<RunResult> RunLoad(const LoadOptions& options, const Workload& workload, const QueueFactory& make_queue,
                                  const Observer& observe, const std::atomic<bool>& stop) {
  return Run(options, workload, make_queue).Go(observe, stop);
}

}  // namespace maxsim::loadtest
