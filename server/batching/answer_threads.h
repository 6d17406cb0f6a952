// Threads that answer the jobs of a batch while its lane goes on to the next one.
#pragma once

#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "base/mutex.h"

namespace maxsim::batching {

// The pool has no queue. It takes work only if an idle thread can begin it at once, so no work waits for other work.
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

  // Returns true if an idle thread now runs `work`. Returns false, with `work` untouched, if no thread is idle.
  bool TryStart(Work& work);

 private:
  void Loop();
  void Stop();

  Mutex mutex_;
  ConditionVariable changed_;
  // Accepted work that has not begun. A woken thread will take each piece.
  std::deque<Work> pending_ ABSL_GUARDED_BY(mutex_);
  int num_idle_ ABSL_GUARDED_BY(mutex_);  // threads without work, minus those that were woken for pending_
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace maxsim::batching
