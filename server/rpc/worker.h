// One thread that does what must not be done on a gRPC thread, such as loading shards: one task after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace maxsim::rpc {

// Thread-safe.
class Worker {
 public:
  Worker();
  // Finishes the task that runs, and runs the waiting ones too: each has somebody who waits for its answer.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Post(absl::AnyInvocable<void()> task);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace maxsim::rpc
