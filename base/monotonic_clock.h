// The clock for all durations and deadlines. It advances evenly even if the wall clock is set.
#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace maxsim {

// Returns the steady clock as an absl::Time. At the first call in this process it shows the wall clock's time, and from
// there on it advances with the steady clock, so that it does not move if an administrator or NTP sets the wall clock.
// Compare the times within this process only, and do not show them to people: after the wall clock has been set, the
// two differ by that step. Thread-safe; never goes back.
inline absl::Time MonotonicNow() {
  using Steady = std::chrono::steady_clock;
  static const absl::Time kZero = absl::Now() - absl::FromChrono(Steady::now().time_since_epoch());
  return kZero + absl::FromChrono(Steady::now().time_since_epoch());
}

}  // namespace maxsim
