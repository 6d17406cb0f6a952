// Runs functions at a time, on a thread of its own.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::cluster {

// The class is thread-safe. Functions must be short. Those whose time has not come when it is destroyed never run.
class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Runs a function at `time`, which is of MonotonicNow(), or up to `slack` later, with others that have the same
  // slack: so the thread wakes once for many. With a slack of 0 it runs at `time`.
  void At(absl::Time time, absl::Duration slack, absl::AnyInvocable<void()> run);

 private:
  struct Entry {
    absl::Time time;
    uint64_t number = 0;  // so that those of one time run in their order
    absl::AnyInvocable<void()> run;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };
  void Run();

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // a heap, the next one first
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace maxsim::cluster
