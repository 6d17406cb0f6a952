// Has the clock of every duration and deadline, which goes on evenly when the wall clock is set.
#pragma once

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace maxsim {

// Returns the steady clock as an absl::Time. It stands at the wall clock's time at the first call in this process and
// advances by the steady clock from there on, so that a wall clock which an administrator or NTP sets does not move it.
// What it returns is comparable within this process only, and not for people to read: after the wall clock has been
// set, the two differ by that step. Thread-safe; never goes back.
inline absl::Time MonotonicNow() {
  using Steady = std::chrono::steady_clock;
  static const absl::Time kZero = absl::Now() - absl::FromChrono(Steady::now().time_since_epoch());
  return kZero + absl::FromChrono(Steady::now().time_since_epoch());
}

}  // namespace maxsim
