// Threads for work that must not block a port's threads, such as loading shards. Tasks with the same key run one after
// another, tasks with different keys in parallel.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/stop.h"

namespace maxsim::service {

// The class is thread-safe.
class Worker {
 public:
  // How long a task takes. Long tasks never delay short tasks of other keys.
  enum class Length { kLong, kShort };

  // The maximum number of long tasks that run at the same time. It is small because each load starts store.load_threads
  // further threads.
  static constexpr size_t kMaxLong = 8;

  // The maximum number of waiting tasks. Further tasks are refused.
  static constexpr size_t kMaxWaiting = 1024;

  // A task is called exactly once. When its turn comes, it is called with OK on one of the worker's threads. If its
  // turn will never come, it is called with an error, on any thread: UNAVAILABLE if the worker stops,
  // RESOURCE_EXHAUSTED if too many tasks wait, or the status of its stop signal if that was stopped. With an error, the
  // task must only report the error.
  using Task = absl::AnyInvocable<void(const absl::Status& turn)>;

  Worker();
  // Stops, and waits for running tasks.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // `stop` may be null. Once the task runs, it must watch `stop` itself.
  void Post(std::string key, Length length, std::shared_ptr<const StopSignal> stop, Task task);

  // Call this after `stop` was stopped. If the task that was posted with `stop` still waits, calls it now, with the
  // status of `stop`. Without Withdraw the task would get that status only when its turn comes.
  void Withdraw(const StopSignal* stop);

  // Calls all waiting and future tasks with UNAVAILABLE instead of running them. Does not wait for running tasks.
  // Idempotent.
  void Stop();

 private:
  struct Waiting {
    std::string key;
    Length length = Length::kLong;
    std::shared_ptr<const StopSignal> stop;
    Task task;
  };

  void Run();
  // Returns the first task that may run now, or the end if there is none.
  std::deque<Waiting>::iterator NextTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts another thread if a task may run now and no thread is idle. If the system cannot start one, the existing
  // threads do the work.
  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  ConditionVariable wake_;
  std::deque<Waiting> tasks_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> running_ ABSL_GUARDED_BY(mutex_);  // keys of the tasks that run
  size_t num_long_ ABSL_GUARDED_BY(mutex_) = 0;            // long tasks that run
  size_t num_idle_ ABSL_GUARDED_BY(mutex_) = 0;            // threads without a task
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
