// Threads that answer the jobs of a batch while its lane goes on to the next one.
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace maxsim::batching {

// The pool has no queue: it only takes work that an idle thread begins at once, so no work ever waits for other work.
// Thread-safe.
class AnswerThreads {
 public:
  using Work = absl::AnyInvocable<void()>;

  // Throws std::system_error if the system cannot start a thread.
  explicit AnswerThreads(int num_threads);
  // Waits until all accepted work is done.
  ~AnswerThreads();
  AnswerThreads(const AnswerThreads&) = delete;
  AnswerThreads& operator=(const AnswerThreads&) = delete;

  // Takes `work`, runs it on an idle thread and returns true. Returns false and leaves `work` untouched when no thread
  // is idle.
  bool TryStart(Work& work);

 private:
  void Loop();
  void Stop();

  Mutex mutex_;
  ConditionVariable changed_;
  // Accepted work that has not begun. A thread has been woken for each piece, and is about to take it.
  std::deque<Work> pending_ ABSL_GUARDED_BY(mutex_);
  int num_idle_ ABSL_GUARDED_BY(mutex_);  // threads without work, minus those that were woken for pending_
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace maxsim::batching
