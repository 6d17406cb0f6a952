// The calls to groups that are under way, so that they can be ended.
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
  // Ends the call with UNAVAILABLE unless it has ended.
  virtual void End() = 0;
};

// The class is thread-safe.
class CallRegistry {
 public:
  // Notes a call; false once Close was called.
  bool Add(const std::shared_ptr<EndableCall>& call);
  // Forgets it. Whoever waits for it may go on from then on.
  void Remove(const EndableCall* call);

  size_t size() const;

  // Waits until no call is under way, or until `deadline`, a time of MonotonicNow().
  void WaitForNone(absl::Time deadline);

  // Refuses calls from now on, ends those under way, and returns how many that were once they have ended.
  size_t Close();

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::map<const EndableCall*, std::weak_ptr<EndableCall>> calls_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace maxsim::cluster
