// A thread that carries out work for another thread, one task at a time.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace maxsim::engine {

// All calls come from one thread.
class HelperThread {
 public:
  // Throws std::system_error if the system cannot start a thread.
  HelperThread();
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // Begins `work` on the helper's thread. Call Wait before the next Start, and before anything that `work` uses is
  // destroyed.
  void Start(std::function<void()> work);
  // Waits until the work is done. The caller then sees all that it has written.
  void Wait();

 private:
  void Loop();

  Mutex mutex_;
  ConditionVariable changed_;
  std::function<void()> work_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace maxsim::engine
