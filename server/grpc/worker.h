// Threads that do what must not be done on a gRPC thread, such as loading shards: tasks of one key one after another,
// those of different keys side by side.
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

namespace maxsim::rpc {

// The class is thread-safe.
class Worker {
 public:
  // How long a task takes. Long ones never keep short ones of other keys waiting.
  enum class Length { kLong, kShort };

  // So many keys have long tasks at a time: those of the ninth key wait. Each load brings store.load_threads threads of
  // its own.
  static constexpr size_t kMaxLong = 8;

  // So many tasks may wait, and what comes beyond is refused.
  static constexpr size_t kMaxWaiting = 1024;

  // A task is called exactly once: with OK on one of the worker's threads when its turn has come, or with another
  // status, on any thread, when it will not come: UNAVAILABLE when the worker stops, RESOURCE_EXHAUSTED when too many
  // wait, and the signal's once that is stopped. In the latter cases it must do no more than tell whoever waits.
  using Task = absl::AnyInvocable<void(const absl::Status& turn)>;

  Worker();
  // Stops, and waits for the tasks that run.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // `stop` may be null. A task that runs sees to its signal itself.
  void Post(std::string key, Length length, std::shared_ptr<const StopSignal> stop, Task task);

  // Call it after `stop` was stopped: tells the task that was posted with it, if it still waits. Without this call the
  // task learns of it when its turn comes.
  void Withdraw(const StopSignal* stop);

  // Drops the tasks that wait and those that come later. Does not wait for those that run. Idempotent.
  void Stop();

 private:
  struct Waiting {
    std::string key;
    Length length = Length::kLong;
    std::shared_ptr<const StopSignal> stop;
    Task task;
  };

  void Run();
  // Returns the first task whose turn it is, or the end when there is none.
  std::deque<Waiting>::iterator NextTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts another thread when more tasks have their turn than threads are idle. Where the system has no thread left,
  // those that are there do the work.
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

}  // namespace maxsim::rpc
