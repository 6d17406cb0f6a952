// Estimates how long it takes to write a group of calls.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::live {

// Model: the time of a group is a fixed part (mostly the sync of the log) plus the group's work divided by a rate.
// Small groups mainly show the fixed part, large groups the rate. A single average of work per second would mix the
// two: after a few groups of one small write each, it would be so low that a large group would seem to take minutes.
// Not thread-safe.
class GroupTime {
 public:
  // Records that a group with this amount of work took this long. Ignores groups without work or time.
  void Observe(uint64_t work, absl::Duration took) {
    const double seconds = absl::ToDoubleSeconds(took);
    if (work == 0 || seconds <= 0) return;
    if (work < kMinLargeWork) {
      fixed_seconds_ = fixed_seconds_ == 0 ? seconds : fixed_seconds_ + kFixedWeight * (seconds - fixed_seconds_);
      return;
    }
    // At least half of a large group's time is counted as the time of its work, even if recent syncs were slow.
    AddToFit(work, std::max(seconds - fixed_seconds_, seconds / 2), seconds);
  }

  // Records that this amount of work was done in this time while more work was waiting. Does not change the fixed part.
  void ObserveRate(uint64_t work, absl::Duration took) {
    const double seconds = absl::ToDoubleSeconds(took);
    if (work > 0 && seconds > 0) AddToFit(work, seconds, seconds);
  }

  // Returns the estimated time of a group with this amount of work; 0 for no work. Until a large group or a rate was
  // observed, the estimate is just the fixed part.
  absl::Duration Of(uint64_t work) const {
    if (work == 0) return absl::ZeroDuration();
    const double seconds_per_work = work_squared_ > 0 ? work_times_seconds_ / work_squared_ : 0;
    return absl::Seconds(fixed_seconds_ + static_cast<double>(work) * seconds_per_work);
  }

 private:
  // A group with at least this much work is used to estimate the rate. A disk that writes 400 MB per second takes 2.6
  // ms for it, about as long as a sync.
  static constexpr uint64_t kMinLargeWork = uint64_t{1} << 20;
  // The weight of the newest small group in the average of the fixed part. With this value a slow disk shows after a
  // few groups, but a single slow sync has little effect.
  static constexpr double kFixedWeight = 0.2;
  // After this much time of writing, an observation of the rate has 1/e of its original weight.
  static constexpr double kTimeConstantSeconds = 10;

  void AddToFit(uint64_t work, double variable_seconds, double seconds) {
    const double fade = std::exp(-seconds / kTimeConstantSeconds);
    const auto size = static_cast<double>(work);
    work_squared_ = work_squared_ * fade + size * size;
    work_times_seconds_ = work_times_seconds_ * fade + size * variable_seconds;
  }

  double fixed_seconds_ = 0;
  // Sums of the least-squares fit of seconds to work, which large groups determine.
  double work_squared_ = 0;
  double work_times_seconds_ = 0;
};

}  // namespace maxsim::live
