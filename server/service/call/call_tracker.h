// Tracks which calls are in progress, so that a stopping server knows when it may close its port. Closing the port cuts
// off every unfinished call and every call that arrives at that time.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::service {

// The class is thread-safe.
class CallTracker {
 public:
  // A call is in progress from the construction of this object until End or its destruction. The tracker must outlive
  // it.
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

  // Begins the drain. WaitForEarlierCalls waits for calls in progress now.
  void BeginDrain();

  // Waits until the calls that were in progress at BeginDrain have ended, for at most `limit`. Returns how many of them
  // are still in progress.
  int64_t WaitForEarlierCalls(absl::Duration limit);

  // Waits until no call is in progress and none has begun or ended for `quiet`. Then clients have probably noticed that
  // this server stops, and send it no more calls. Returns false if that takes longer than `limit`.
  bool WaitForQuiet(absl::Duration quiet, absl::Duration limit);

 private:
  using Clock = std::chrono::steady_clock;

  bool Begin();
  void End(bool began_before_drain);

  Mutex mutex_;
  ConditionVariable idle_;  // one of the counts has come to 0
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t earlier_ ABSL_GUARDED_BY(mutex_) = 0;            // calls in progress that began before BeginDrain
  int64_t later_ ABSL_GUARDED_BY(mutex_) = 0;              // calls in progress that began after BeginDrain
  Clock::time_point last_change_ ABSL_GUARDED_BY(mutex_);  // of either count
};

}  // namespace maxsim::service
