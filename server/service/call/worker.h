// Threads for work that must not be done on a thread of a port, such as loading shards. Tasks with the same key run one
// after another, those with different keys in parallel.
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
  // How long a task takes. Long ones never keep short ones of other keys waiting.
  enum class Length { kLong, kShort };

  // The maximum number of long tasks that run at a time; a ninth waits. Each load starts store.load_threads threads of
  // its own.
  static constexpr size_t kMaxLong = 8;

  // The maximum number of tasks that wait; further ones are refused.
  static constexpr size_t kMaxWaiting = 1024;

  // A task is called exactly once: with OK on one of the worker's threads when its turn has come, or with an error, on
  // any thread, if it never will: UNAVAILABLE when the worker stops, RESOURCE_EXHAUSTED when too many wait, or the
  // status of its signal once that is stopped. After an error it must do no more than report it.
  using Task = absl::AnyInvocable<void(const absl::Status& turn)>;

  Worker();
  // Stops, and waits for the tasks that run.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // `stop` may be null. Once a task runs, it must watch its signal itself.
  void Post(std::string key, Length length, std::shared_ptr<const StopSignal> stop, Task task);

  // To be called after `stop` was stopped: calls the task that was posted with it, if it still waits. Otherwise the
  // task would learn of it only when its turn comes.
  void Withdraw(const StopSignal* stop);

  // Drops waiting and future tasks. Does not wait for those that run. Idempotent.
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
  // Starts another thread if a task has its turn and no thread is idle. If the system has no more threads, the existing
  // ones do the work.
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
