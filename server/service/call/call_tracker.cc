#include "server/service/call/call_tracker.h"

#include <algorithm>

namespace maxsim::service {
namespace {

// The longest time limit. A longer one might overflow the clock.
constexpr absl::Duration kLongest = absl::Hours(24 * 365);

std::chrono::steady_clock::duration ToSteady(absl::Duration duration) {
  return absl::ToChronoNanoseconds(std::clamp(duration, absl::ZeroDuration(), kLongest));
}

}  // namespace

bool CallTracker::Begin() {
  const MutexLock lock(&mutex_);
  last_change_ = Clock::now();
  ++(draining_ ? later_ : earlier_);
  return !draining_;
}

void CallTracker::End(bool began_before_drain) {
  const MutexLock lock(&mutex_);
  last_change_ = Clock::now();
  int64_t& count = began_before_drain ? earlier_ : later_;
  // Notify while locked: after that, a waiting thread may destroy the tracker.
  if (--count == 0 && draining_) idle_.NotifyAll();
}

void CallTracker::BeginDrain() {
  const MutexLock lock(&mutex_);
  draining_ = true;
}

int64_t CallTracker::WaitForEarlierCalls(absl::Duration limit) {
  MutexLock lock(&mutex_);
  const Clock::time_point end = Clock::now() + ToSteady(limit);
  while (earlier_ != 0 && idle_.WaitUntil(lock, end)) {
  }
  return earlier_;
}

bool CallTracker::WaitForQuiet(absl::Duration quiet, absl::Duration limit) {
  const Clock::duration silence = ToSteady(quiet);
  const Clock::time_point end = Clock::now() + ToSteady(limit);
  MutexLock lock(&mutex_);
  while (true) {
    const Clock::time_point now = Clock::now();
    const bool idle = earlier_ + later_ == 0;
    if (idle && now - last_change_ >= silence) return true;
    if (now >= end) return false;
    idle_.WaitUntil(lock, idle ? std::min(end, last_change_ + silence) : end);
  }
}

}  // namespace maxsim::service
