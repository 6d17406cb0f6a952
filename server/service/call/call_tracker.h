// Which calls are in progress, so that a server that stops knows when it may close its port: gRPC cuts off every call
// that it has not finished by then, and those that arrive while it closes.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::service {

// The class is thread-safe.
class CallTracker {
 public:
  // A call is in progress from its construction until End or its destruction. The tracker must outlive it.
  class Call {
   public:
    explicit Call(CallTracker* tracker) : tracker_(tracker), began_before_drain_(tracker->Begin()) {}
    ~Call() { End(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Ends the call. It may be called again, but not from two threads at a time.
    void End() {
      if (tracker_ != nullptr) tracker_->End(began_before_drain_);
      tracker_ = nullptr;
    }

   private:
    CallTracker* tracker_;
    const bool began_before_drain_;
  };

  // Calls that are in progress now are told from those that come later.
  void BeginDrain();

  // Waits, `limit` at most, for the calls that were in progress at BeginDrain. Returns how many there still are.
  int64_t WaitForEarlierCalls(absl::Duration limit);

  // Waits until no call is in progress and none has begun or ended for `quiet`, which means that clients have noticed.
  // Returns false if that takes longer than `limit`.
  bool WaitForQuiet(absl::Duration quiet, absl::Duration limit);

 private:
  using Clock = std::chrono::steady_clock;

  bool Begin();
  void End(bool began_before_drain);

  Mutex mutex_;
  ConditionVariable idle_;  // one of the counts has come to 0
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t earlier_ ABSL_GUARDED_BY(mutex_) = 0;            // calls in progress that began before BeginDrain
  int64_t later_ ABSL_GUARDED_BY(mutex_) = 0;              // calls in progress that began after it
  Clock::time_point last_change_ ABSL_GUARDED_BY(mutex_);  // of either count
};

}  // namespace maxsim::service
