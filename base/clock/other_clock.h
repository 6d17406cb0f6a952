// Translates a deadline to the clock of another machine, without trusting that the two clocks are set to the same time.
//
// Now and then the other machine sends the time that its clock shows. While the message travels, that clock goes on, so
// it shows at least the time in the message when the message arrives. So a translated deadline may be early, by as long
// as the message travelled, but never late. The two clocks may show different times, if they run equally fast between
// two messages.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace maxsim {

// Not thread-safe. `now` and `local` are times of MonotonicNow().
class OtherClock {
 public:
  // An observation is replaced by a later one only if the later message travelled faster, or if the earlier one is this
  // old. Within this time the clocks drift apart by at most 5 ms, at the 500 parts per million that NTP allows.
  static constexpr absl::Duration kMaxAge = absl::Seconds(10);

  // Records that the other clock showed `told` at some moment before `now`.
  void Observe(absl::Time told, absl::Time now) {
    const absl::Duration ahead = told - now;
    if (seen_.has_value() && ahead < seen_->ahead && now - seen_->at < kMaxAge) return;
    seen_ = {ahead, now};
  }
  // Forgets the other clock, because it was replaced.
  void Reset() { seen_ = std::nullopt; }

  // Translates a deadline: as long as the other clock shows no more than the result, the time `local` has not passed.
  // Returns nullopt if nothing was observed yet.
  std::optional<absl::Time> At(absl::Time local) const {
    if (!seen_.has_value()) return std::nullopt;
    return local + seen_->ahead;
  }

 private:
  struct Seen {
    absl::Duration ahead;
    absl::Time at;
  };
  std::optional<Seen> seen_;
};

}  // namespace maxsim
