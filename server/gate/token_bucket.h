// Limits a rate, such as calls or bytes per second. Pure: no clock of its own.
#pragma once

#include <algorithm>
#include <chrono>

namespace maxsim::gate {

// Holds up to `burst` tokens; refilled by `per_second` a second. Not thread-safe.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  TokenBucket(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  // Takes `amount` tokens, even if the bucket has fewer: it then owes the missing ones. Returns the time until these
  // have been refilled, or zero if none are missing.
  Clock::duration Take(double amount, Clock::time_point now) {
    if (last_ != Clock::time_point()) {
      const double seconds = std::chrono::duration<double>(now - last_).count();
      left_ = std::min(burst_, left_ + seconds * per_second_);
    }
    last_ = now;
    left_ -= amount;
    if (left_ >= 0) return Clock::duration::zero();
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(-left_ / per_second_));
  }

 private:
  const double per_second_;
  const double burst_;
  double left_;
  Clock::time_point last_{};
};

}  // namespace maxsim::gate
