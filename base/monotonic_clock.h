// The clock for all durations and deadlines. It advances evenly even if the wall clock is changed.
#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace maxsim {

// Returns the steady clock's time as an absl::Time. The first call in a process returns the time of the wall clock.
// Later calls add the steady clock's progress, so they do not change if an administrator or NTP sets the wall clock.
// Compare these times only within this process, and do not show them to people, because they may differ from the wall
// clock. Thread-safe; never goes back.
inline absl::Time MonotonicNow() {
  using Steady = std::chrono::steady_clock;
  static const absl::Time kZero = absl::Now() - absl::FromChrono(Steady::now().time_since_epoch());
  return kZero + absl::FromChrono(Steady::now().time_since_epoch());
}

}  // namespace maxsim
