// One run at one load: threads, clock, and what came of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/call_queue.h"
#include "loadtest/options.h"
#include "loadtest/thread_stats.h"
#include "loadtest/workload.h"

namespace maxsim::loadtest {

// What happened in a second of a run, or in a third of it.
struct Interval {
  double begin_s = 0, end_s = 0;  // from the begin of the measured part; negative in the warm-up
  bool warmup = false;            // then there are rates only: warm-up is not measured
  double rps = 0, qps = 0;        // answered requests, and queries, a second
  double p50_us = 0, p99_us = 0;
  int64_t rejected = 0, errors = 0;
  int64_t in_flight = 0;  // at the end
};

// Do the thirds of a run agree? Tolerances: the rate of answers within 5 % of the mean of the three, and in open loop
// within 4 standard deviations of a Poisson count where that is more; the median latency within 10 % of the lowest.
struct Stability {
  bool stable = false;
  std::string reason;  // when not
  double rate_tolerance = 0, p50_tolerance = 0;
  std::vector<Interval> thirds;
};
Stability CheckStability(const std::vector<Interval>& thirds, bool open_loop);

struct RunResult {
  double rate = 0;        // asked for; 0 in closed loop
  double duration_s = 0;  // measured part
  Counts counts;
  std::array<int64_t, kNumCodes> errors{};  // by code
  std::array<std::string, kNumCodes> first_error;
  Histogram latency, server_total, server_queue, copy, kernel;
  // These count the whole run, warm-up included.
  int64_t all_sent = 0, all_answered = 0, all_rejected = 0, all_errors = 0;
  int64_t all_wrong = 0;  // of the errors: answers that were wrong

  std::vector<Interval> series;  // by second
  Stability stability;

  double client_cpu_s = 0;   // processor time of this process in the measured part
  double machine_busy = -1;  // share of the processors it may use that was used, by anyone; -1: not known
  std::vector<double> threads_busy;
  bool client_bound = false;
  std::string client_bound_reason;

  double rps() const { return duration_s > 0 ? static_cast<double>(counts.answered) / duration_s : 0; }
  double qps() const { return duration_s > 0 ? static_cast<double>(counts.queries) / duration_s : 0; }
};

// Makes the queue of a thread, 0 .. options.threads - 1.
using QueueFactory = std::function<std::unique_ptr<client::CallQueue>(int thread)>;

// Called on the calling thread once a second.
using Observer = std::function<void(const Interval&)>;

// Runs options.mode closed or open (a sweep's steps are open) and returns when every request has been answered. `stop`
// set ends the run early, with what was measured; CANCELLED when that is nothing.
absl::StatusOr<RunResult> RunLoad(const LoadOptions& options, const Workload& workload, const QueueFactory& make_queue,
                                  const Observer& observe, const std::atomic<bool>& stop);

}  // namespace maxsim::loadtest
