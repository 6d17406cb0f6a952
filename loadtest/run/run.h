// Runs one load: its threads, its clock and its results.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/call_queue.h"
#include "loadtest/run/options.h"
#include "loadtest/run/thread_stats.h"
#include "loadtest/run/workload.h"

namespace maxsim::loadtest {

// The results of one interval of a run. RunResult::series has an interval for every second, Stability::thirds one for
// every third of the measured part.
struct Interval {
  double begin_s = 0, end_s = 0;  // seconds from the begin of the measured part; negative in the warm-up
  bool warmup = false;            // an interval of the warm-up, which has rates and counts only
  double rps = 0, qps = 0;        // answered requests and queries a second
  double p50_us = 0, p99_us = 0;
  int64_t rejected = 0, errors = 0;
  int64_t in_flight = 0;  // requests in flight at the end of the interval
};

// Whether the thirds of a run agree.
struct Stability {
  bool stable = false;
  std::string reason;  // why it is not stable
  double rate_tolerance = 0, p50_tolerance = 0;
  std::vector<Interval> thirds;
};

// Compares the thirds of a run. It is stable if two things hold. Each third's answer rate differs from the mean by at
// most 5 % or, in an open loop, by at most 4 standard deviations of a Poisson count if that is more. And each third's
// median latency is at most 10 % above the lowest.
Stability CheckStability(const std::vector<Interval>& thirds, bool open_loop);

struct RunResult {
  double rate = 0;        // intended requests per second; 0 in a closed loop
  double duration_s = 0;  // length of the measured part
  Counts counts;
  std::array<int64_t, kNumCodes> errors{};  // by code
  std::array<std::string, kNumCodes> first_error;
  Histogram latency, server_total, server_queue, copy, kernel;
  // These count requests of the whole run, warm-up included.
  int64_t all_sent = 0, all_answered = 0, all_rejected = 0, all_errors = 0;
  int64_t all_wrong = 0;  // errors that are wrong answers

  std::vector<Interval> series;  // by second
  Stability stability;

  double client_cpu_s = 0;           // processor time of this process in the measured part
  double machine_busy = -1;          // busy share of the processors that this process may use; -1: not known
  std::vector<double> threads_busy;  // busy share of a processor, by thread
  bool client_bound = false;
  std::string client_bound_reason;

  double rps() const { return duration_s > 0 ? static_cast<double>(counts.answered) / duration_s : 0; }
  double qps() const { return duration_s > 0 ? static_cast<double>(counts.queries) / duration_s : 0; }
};

// Makes the call queue of a sending thread: `thread` is 0 .. options.threads - 1.
using QueueFactory = std::function<std::unique_ptr<client::CallQueue>(int thread)>;

// Called once per second, on RunLoad's thread.
using Observer = std::function<void(const Interval&)>;

// Runs a closed or an open loop, as options.mode says (a step of a sweep is an open loop), and returns when every
// request has been answered. If `stop` is set, ends early and returns what has been measured so far, or CANCELLED if
// nothing has.
absl::StatusOr<RunResult> RunLoad(const LoadOptions& options, const Workload& workload, const QueueFactory& make_queue,
                                  const Observer& observe, const std::atomic<bool>& stop);

}  // namespace maxsim::loadtest
