// Keeps track of the calls to groups that are in progress, so that a shutdown can wait for them or end them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::cluster {

// A call that can be ended from outside.
class EndableCall {
 public:
  virtual ~EndableCall() = default;
  // Ends the call with UNAVAILABLE unless it has already ended.
  virtual void End() = 0;
};

// The class is thread-safe.
class CallRegistry {
 public:
  // Adds a call. Returns false, and adds nothing, once Close has been called.
  bool Add(const std::shared_ptr<EndableCall>& call);
  // Removes a call that has ended. Wakes WaitForNone and Close if it was the last one.
  void Remove(const EndableCall* call);

  size_t size() const;

  // Waits until no call is in progress, or until `deadline` (on the clock of MonotonicNow()).
  void WaitForNone(absl::Time deadline);

  // Refuses new calls and ends the calls in progress. Blocks until these have ended, and returns how many there were.
  size_t Close();

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<const EndableCall*, std::weak_ptr<EndableCall>> calls_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace maxsim::cluster
