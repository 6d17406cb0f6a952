// Stops calls to an encoder that does not work. After `failures` consecutive failed calls the breaker opens, and lets
// no call through for `cooldown`. Then it lets one call through as a probe: if the probe succeeds, the breaker closes,
// otherwise it opens again.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/text.h"

namespace maxsim::encoder {

// Not thread-safe. Times are those of MonotonicNow.
class CircuitBreaker {
 public:
  enum class State { kClosed = 0, kHalfOpen = 1, kOpen = 2 };

  // If `failures` is 0, the breaker never opens.
  CircuitBreaker(int failures, absl::Duration cooldown) : limit_(failures), cooldown_(cooldown) {}

  // Returns OK if a request may be accepted. Otherwise returns UNAVAILABLE with the last failure and, if known, the
  // time until the next probe.
  absl::Status Admit(absl::Time now) {
    if (state_ == State::kOpen && now >= open_until_) {
      state_ = State::kHalfOpen;
      probing_ = false;
    }
    if (state_ == State::kOpen) {
      const double left = absl::ToDoubleSeconds(open_until_ - now);
      return absl::UnavailableError(Cat("the encoder is not called after ", failures_,
                                        " failures in a row; it is tried again in ", left < 0.1 ? 0.1 : left,
                                        " s; the last failure: ", why_));
    }
    if (state_ == State::kHalfOpen && probing_) {
      return absl::UnavailableError(Cat("the encoder is being tried again after failures; the last one: ", why_));
    }
    return absl::OkStatus();
  }

  // Returns whether a call may begin.
  bool MayCall() const { return state_ == State::kClosed || (state_ == State::kHalfOpen && !probing_); }
  void OnCall() { probing_ = state_ == State::kHalfOpen; }

  void OnSuccess() {
    state_ = State::kClosed;
    failures_ = 0;
    probing_ = false;
  }

  // Returns true when this failure opens the breaker.
  bool OnFailure(absl::Time now, std::string_view why) {
    if (state_ == State::kOpen) return false;  // a call that began before it opened
    ++failures_;
    why_ = std::string(why);
    if (limit_ == 0 || (state_ == State::kClosed && failures_ < limit_)) return false;
    state_ = State::kOpen;
    probing_ = false;
    open_until_ = now + cooldown_;
    return true;
  }

  State state() const { return state_; }
  absl::Time open_until() const { return open_until_; }

 private:
  const int limit_;
  const absl::Duration cooldown_;
  State state_ = State::kClosed;
  int failures_ = 0;
  bool probing_ = false;
  absl::Time open_until_;
  std::string why_;
};

}  // namespace maxsim::encoder
