// Threads that several callers share: the executors of a CPU backend, or a CUDA backend's readers of documents.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace maxsim {

// Runs one function on several threads at once; the callers' own threads take part. Thread-safe: calls of several
// threads run side by side and share the workers, first come, first served.
class ThreadPool {
 public:
  // Starts parallelism - 1 threads. `parallelism` >= 1 counts the threads of one call, and one of them is the caller's.
  // Where the system refuses a thread, the pool has those that it started before.
  explicit ThreadPool(int parallelism);

  // Ends the threads. No call may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns the threads of one call that there are: as many as the constructor was asked for, or fewer.
  int parallelism() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(slot) on this thread with slot 0, and on as many of the workers as are free before this thread's call
  // returns, with slots 1 .. parallelism() - 1, each used at most once. `work` claims its share of the job by itself
  // (an atomic counter), so it does not matter how many take part. Returns when every call of `work` has returned;
  // everything they wrote is then visible here. `work` must not throw, nor call Run.
  void Run(absl::FunctionRef<void(int slot)> work);

 private:
  struct Job {
    absl::FunctionRef<void(int slot)> work;
    int next_slot = 1;
    int num_active = 0;
    std::condition_variable idle;
  };

  void WorkerLoop();

  std::mutex mutex_;
  std::condition_variable job_added_;
  std::list<Job*> jobs_;  // jobs that have a free slot
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace maxsim
