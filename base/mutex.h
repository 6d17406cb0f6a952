// A mutex whose use clang checks (-Wthread-safety, which the sanitizers' builds have): members say by ABSL_GUARDED_BY
// which mutex guards them, functions by ABSL_EXCLUSIVE_LOCKS_REQUIRED that their caller holds it. It is std::mutex
// underneath, which the standard library does not annotate.
//
//   MutexLock lock(&mutex_);
//   while (queue_.empty()) not_empty_.Wait(lock);   // A loop: clang does not look into a predicate.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace maxsim {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

  // Tells clang that the caller holds it, where it cannot see that. Checks nothing.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex from its construction to its destruction, but for the time between Unlock and Lock. For one thread.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex->mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

// Waits release the lock's mutex and hold it again when they return. They may return without a reason, so call them in
// a loop.
class ConditionVariable {
 public:
  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }

  // Returns false if the time has come.
  template <typename Clock, typename Duration>
  bool WaitUntil(MutexLock& lock, std::chrono::time_point<Clock, Duration> time) {
    return condition_.wait_until(lock.lock_, time) == std::cv_status::no_timeout;
  }
  template <typename Rep, typename Period>
  bool WaitFor(MutexLock& lock, std::chrono::duration<Rep, Period> time) {
    return condition_.wait_for(lock.lock_, time) == std::cv_status::no_timeout;
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace maxsim
