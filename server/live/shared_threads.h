// A few threads that many live collections share, so that a collection costs no thread of its own.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace maxsim::live {

class SharedThreads;

// Work that is done in steps, on any of the shared threads, and never in two at once. The class is thread-safe.
class SharedTask {
 public:
  // Does what there is to do now, and returns the time (MonotonicNow) of the next step: InfinitePast for as soon as
  // others had their turn, InfiniteFuture for only when Wake is called.
  using Step = std::function<absl::Time()>;

  // `threads` must outlive it.
  SharedTask(SharedThreads* threads, Step step);
  // Stops.
  ~SharedTask();
  SharedTask(const SharedTask&) = delete;
  SharedTask& operator=(const SharedTask&) = delete;

  // Has a step begin after this call: at once, or after the one that runs.
  void Wake();
  // Waits for the step that runs. None begins afterwards. Not to be called from a step.
  void Stop();

 private:
  friend class SharedThreads;
  enum class State { kIdle, kReady, kRunning };

  SharedThreads* const threads_;
  const Step step_;
  // Guarded by the mutex of `threads_`.
  State state_ = State::kIdle;
  bool woken_ = false;  // while it ran
  bool stopped_ = false;
  absl::Time at_ = absl::InfiniteFuture();  // of its entry among the timers
};

// The class is thread-safe.
class SharedThreads {
 public:
  // `name` is that of the threads, 15 characters at most. At most `max_threads` are started, as steps wait for one.
  SharedThreads(std::string name, size_t max_threads);
  // Every task must be stopped.
  ~SharedThreads();
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;

  // Starts the first thread, unless there is one. RESOURCE_EXHAUSTED where the system has none left. Without it no step
  // is made; where later ones cannot be started, those that run do the work.
  absl::Status Start();

 private:
  friend class SharedTask;

  void Run();
  void MakeReady(SharedTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetTimer(SharedTask* task, absl::Time at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelTimer(SharedTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeDueTimers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunStep(SharedTask* task, MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const size_t max_threads_;
  Mutex mutex_;
  ConditionVariable ready_changed_;
  ConditionVariable step_ended_;
  std::deque<SharedTask*> ready_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, SharedTask*> timers_ ABSL_GUARDED_BY(mutex_);
  size_t num_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::live
