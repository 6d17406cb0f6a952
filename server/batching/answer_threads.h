// Threads that answer the jobs of a batch while its lane goes on to the next one.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace maxsim::batching {

// Nothing ever waits for one of these threads: what they take on is bounded by their number. Thread-safe.
class AnswerThreads {
 public:
  using Work = absl::AnyInvocable<void()>;

  // Throws std::system_error where the machine has no thread to give.
  explicit AnswerThreads(int num_threads);
  // Returns when all work that was taken on is done.
  ~AnswerThreads();
  AnswerThreads(const AnswerThreads&) = delete;
  AnswerThreads& operator=(const AnswerThreads&) = delete;

  // Takes `work`, runs it on one of the threads and returns true; or leaves it where it is and returns false, when each
  // of the threads has something to do.
  bool TryStart(Work& work);

 private:
  void Loop();
  void Stop();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Work> taken_;  // not begun; each has a thread that is about to wake up for it
  int num_free_;            // threads with nothing to do and nothing in taken_
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace maxsim::batching
