// A few threads that many live collections share, so that a collection needs no threads for itself.
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

// Work done in steps on the shared threads. Two steps of one task never run at the same time. Thread-safe.
class SharedTask {
 public:
  // Does the work that is due, and returns the time (MonotonicNow) of the next step. InfinitePast means that the next
  // step runs after the other tasks that are ready now. InfiniteFuture means that it runs when Wake is called.
  using Step = std::function<absl::Time()>;

  // `threads` must outlive it.
  SharedTask(SharedThreads* threads, Step step);
  // Calls Stop.
  ~SharedTask();
  SharedTask(const SharedTask&) = delete;
  SharedTask& operator=(const SharedTask&) = delete;

  // Makes a step run that begins after this call: immediately, or when the running step has ended.
  void Wake();
  // Waits for the running step, and prevents further ones. Must not be called from a step.
  void Stop();

 private:
  friend class SharedThreads;
  enum class State { kIdle, kReady, kRunning };

  SharedThreads* const threads_;
  const Step step_;
  // The following are guarded by the mutex of `threads_`.
  State state_ = State::kIdle;
  bool woken_ = false;  // Wake was called while a step ran
  bool stopped_ = false;
  absl::Time at_ = absl::InfiniteFuture();  // the key of its entry in SharedThreads::timers_
};

// Thread-safe.
class SharedThreads {
 public:
  // `name` is the name of the threads, at most 15 characters. Threads are started as steps need them, up to
  // `max_threads`.
  SharedThreads(std::string name, size_t max_threads);
  // All tasks must have been stopped.
  ~SharedThreads();
  SharedThreads(const SharedThreads&) = delete;
  SharedThreads& operator=(const SharedThreads&) = delete;

  // Starts the first thread if there is none. No step runs before this. Returns RESOURCE_EXHAUSTED if the system cannot
  // start a thread. If further threads cannot be started later, the existing ones do the work.
  absl::Status Start();

 private:
  friend class SharedTask;

  void Run();
  void MakeReady(SharedTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetTimer(SharedTask* task, absl::Time at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelTimer(SharedTask* task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeDueTimers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndStep(SharedTask* task, absl::Time next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
