// The counts of one sending thread, and their sums over threads. Only one thread writes each value, so it needs no
// locked instructions. Any thread may read the values at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "loadtest/run/histogram.h"

namespace maxsim::loadtest {

// A count that one thread writes and others read at any time.
class Counter {
 public:
  void Add(int64_t more = 1) { value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

inline constexpr size_t kNumCodes = 17;  // OK .. UNAUTHENTICATED

// The processor time of a thread over the measured part of a run.
struct ThreadTime {
  int64_t cpu_ns = 0;
  int64_t wall_ns = 0;
  // Returns the share of a processor that the thread used, 0 to 1.
  double busy() const { return wall_ns > 0 ? static_cast<double>(cpu_ns) / static_cast<double>(wall_ns) : 0; }
};

// The counts of one Worker. In an open loop two threads write the values. The large recorders lie between the values of
// one thread and those of the other, so that the threads share no cache line.
struct ThreadStats {
  // The thread that sends writes these. All but `sent` count the measured part of the run.
  Counter sent;
  Counter late;  // requests sent more than LoadOptions::late_after after the intended time
  // Late requests that max_in_flight delayed, or that were late because the thread was still catching up after such a
  // delay.
  Counter late_at_limit;
  // Requests that were due but never sent, because max_in_flight was reached at the end of the run, or because the
  // thread still lagged one timeout after the end.
  Counter unsent;
  ThreadTime sender;  // read when the threads have ended; zero in a closed loop, which has no thread for sending

  // Written by the thread that takes answers. The recorders have the answered requests of the measured part; all but
  // `latency` hold times that the server reports.
  Recorder latency;
  Recorder server_total, server_queue, copy, kernel;
  Counter done;                                    // requests of the whole run that have ended
  Counter all_answered, all_rejected, all_errors;  // requests of the whole run
  Counter all_wrong;                               // errors of the whole run that are wrong answers
  Counter answered, queries, rejected;             // in the measured part
  std::array<Counter, kNumCodes> errors;           // in the measured part, by status code
  // These are read when the threads have ended.
  std::array<std::string, kNumCodes> first_error;  // message of the whole run's first error of a code
  ThreadTime receiver;
};

// Counts of the measured part, summed over threads.
struct Counts {
  int64_t answered = 0, queries = 0, rejected = 0, errors = 0, late = 0, late_at_limit = 0, unsent = 0;

  int64_t requests() const { return answered + rejected + errors; }
};

// The counts and latencies of the measured part so far, of all threads.
struct Snapshot {
  Counts counts;
  Histogram latency;
};

}  // namespace maxsim::loadtest
