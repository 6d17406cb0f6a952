// Measures the recent rate of work.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::batching {

// The rate is an exponential average: finished work and busy time fade with the same time constant, and their quotient
// is the rate. Time in which nothing runs does not count: a quiet minute must not look like a slow device. The class is
// not thread-safe.
class ThroughputMeter {
 public:
  explicit ThroughputMeter(absl::Duration time_constant) : time_constant_(absl::ToDoubleSeconds(time_constant)) {}

  // Begins busy time. Call this when a batch starts while no other is running.
  void Begin(absl::Time now) { last_ = now; }

  // Adds `work` that was finished at `now` by one of the lanes.
  void Add(uint64_t work, absl::Time now) {
    const double seconds = std::max(absl::ToDoubleSeconds(now - last_), 0.0);
    const double fade = std::exp(-seconds / time_constant_);
    work_ = work_ * fade + static_cast<double>(work);
    seconds_ = seconds_ * fade + seconds;
    last_ = now;
  }

  // Returns 0 until the first work has been added.
  double PerSecond() const { return seconds_ > 0 ? work_ / seconds_ : 0; }

 private:
  const double time_constant_;
  absl::Time last_ = absl::InfinitePast();
  double work_ = 0;
  double seconds_ = 0;
};

}  // namespace maxsim::batching
