// What one sending thread counts, and sums over threads. A value has one writer, which therefore needs no locked
// instruction, and any number of readers at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "loadtest/histogram.h"

namespace maxsim::loadtest {

class Counter {
 public:
  void Add(int64_t more = 1) { value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

inline constexpr size_t kNumCodes = 17;  // OK .. UNAUTHENTICATED

// Processor time of a thread over the measured part of a run.
struct ThreadTime {
  int64_t cpu_ns = 0;
  int64_t wall_ns = 0;
  double busy() const { return wall_ns > 0 ? static_cast<double>(cpu_ns) / static_cast<double>(wall_ns) : 0; }
};

// What the two threads of an open loop write lies on either side of the recorders, in no common cache line.
struct ThreadStats {
  // By the thread that sends. All but `sent` are of the measured part of the run.
  Counter sent;
  Counter late;           // sent more than LoadOptions::late_after after the intended time
  Counter late_at_limit;  // of these, because max_in_flight requests were under way, or had been and it lags since
  Counter unsent;         // due, and not sent by the end at max_in_flight, or a timeout after it by a thread that lags
  ThreadTime sender;      // to be read when the threads have ended; a closed loop has no sender of its own

  // By the thread that takes answers.
  Recorder latency;                                   // of answered requests, of the measured part, as these:
  Recorder server_total, server_queue, copy, kernel;  // as the server timed them
  Counter done;
  Counter all_answered, all_rejected, all_errors;  // of the whole run
  Counter all_wrong;                               // of its errors: answers that were wrong
  Counter answered, queries, rejected;             // of its measured part
  std::array<Counter, kNumCodes> errors;
  // To be read when the threads have ended.
  std::array<std::string, kNumCodes> first_error;  // message of the first error of a code, in the whole run
  ThreadTime receiver;
};

// Sums over threads.
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
