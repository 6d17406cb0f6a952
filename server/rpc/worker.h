// One thread that does what must not be done on a gRPC thread, such as loading shards: one task after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace maxsim::rpc {

// Thread-safe.
class Worker {
 public:
  // Called exactly once: with OK on the worker's thread when its turn has come, or with UNAVAILABLE, on any thread,
  // when it will not come. In the latter case it must do no more than tell whoever waits.
  using Task = absl::AnyInvocable<void(const absl::Status& turn)>;

  Worker();
  // Stops, and waits for the task that runs.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Post(Task task);

  // Drops the tasks that wait and those that come later. Does not wait for the one that runs. Idempotent.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace maxsim::rpc
