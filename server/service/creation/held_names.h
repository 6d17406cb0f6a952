// Locks on names: one call at a time creates or unloads a collection.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/stop.h"

namespace maxsim::service {

// Thread-safe.
class HeldNames {
 public:
  // Waits while another call holds the name, and then holds it. When `stop` (may be null) is stopped, returns the
  // status of `stop`, and does not hold the name.
  absl::Status Take(const std::string& name, const StopSignal* stop) {
    // Stopping `stop` notifies nothing, so each wait has a time limit.
    constexpr std::chrono::milliseconds kNamePoll{20};
    MutexLock lock(&mutex_);
    while (!names_.insert(name).second) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
      released_.WaitFor(lock, kNamePoll);
    }
    return absl::OkStatus();
  }
  void Release(const std::string& name) {
    {
      const MutexLock lock(&mutex_);
      names_.erase(name);
    }
    released_.NotifyAll();
  }

 private:
  Mutex mutex_;
  ConditionVariable released_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// Holds a name of HeldNames until the end of a scope. For one thread.
class HeldName {
 public:
  // Holds the name until it is destroyed, if status() is OK; otherwise it does not hold it. `names` must outlive this
  // object.
  HeldName(HeldNames* names, const std::string& name, const StopSignal* stop)
      : names_(names), name_(name), status_(names->Take(name, stop)) {}
  ~HeldName() {
    if (status_.ok()) names_->Release(name_);
  }
  HeldName(const HeldName&) = delete;
  HeldName& operator=(const HeldName&) = delete;

  // Returns OK, or the status of the signal that has stopped the wait.
  const absl::Status& status() const { return status_; }

 private:
  HeldNames* const names_;
  const std::string name_;
  const absl::Status status_;
};

}  // namespace maxsim::service
