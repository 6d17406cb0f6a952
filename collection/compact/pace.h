// Limits a writer to a number of bytes per second.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "base/stop.h"

namespace maxsim::collection {

// For one thread.
class Pace {
 public:
  // 0 bytes per second means no limit. `stop` may be null.
  Pace(int64_t bytes_per_second, const StopSignal* stop) : bytes_per_second_(bytes_per_second), stop_(stop) {}

  // Sleeps until the limit allows `num_bytes`, the total number of bytes written so far. Returns OK, or at once the
  // status of `stop` if it is stopped.
  absl::Status Wait(int64_t num_bytes) {
    constexpr std::chrono::duration<double> kLongestSleep(0.05);
    while (!Stopped(stop_) && bytes_per_second_ > 0) {
      const std::chrono::duration<double> due(static_cast<double>(num_bytes) / static_cast<double>(bytes_per_second_));
      const std::chrono::duration<double> left = began_ + due - Clock::now();
      if (left.count() <= 0) break;
      std::this_thread::sleep_for(std::min(left, kLongestSleep));
    }
    return StopStatus(stop_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const int64_t bytes_per_second_;
  const StopSignal* const stop_;
  const std::chrono::time_point<Clock, std::chrono::duration<double>> began_ = Clock::now();
};

}  // namespace maxsim::collection
