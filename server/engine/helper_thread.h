// A thread that does one thing at a time for another.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace maxsim::engine {

// Used by one thread.
class HelperThread {
 public:
  // Throws std::system_error where the machine has no thread to give.
  HelperThread();
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  // Begins `work` on the helper's thread. Wait must come before the next Start, and before what `work` uses goes.
  void Start(std::function<void()> work);
  // Returns when the work is done; what it wrote is visible then.
  void Wait();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::function<void()> work_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace maxsim::engine
