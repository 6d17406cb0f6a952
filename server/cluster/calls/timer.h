// Runs functions at given times, on a thread of its own.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::cluster {

// The class is thread-safe. Functions must be short. Functions that are not yet due when the timer is destroyed never
// run.
class Timer {
 public:
  Timer();
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Runs a function at `time` (on the clock of MonotonicNow()) or up to `slack` later: times are rounded up to a
  // multiple of `slack`, so that the thread wakes once for many functions.
  void At(absl::Time time, absl::Duration slack, absl::AnyInvocable<void()> run);

 private:
  struct Entry {
    absl::Time time;
    uint64_t number = 0;  // keeps functions with the same time in the order in which they were added
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
