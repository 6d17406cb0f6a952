// Threads that several callers share: the executors of a CPU backend, or a CUDA backend's readers of documents.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace maxsim {

// Hands out the items 0 .. num_items - 1 of one call to the threads that work on it. Thread-safe.
class SharedItems {
 public:
  explicit SharedItems(size_t num_items) : num_items_(num_items) {}

  // Calls work(item) for one unclaimed item after another until none is left. If `work` throws std::bad_alloc, no
  // thread gets a further item, and out_of_memory() returns true. ForEach does not let the exception out, because on a
  // pool's thread it would end the process.
  template <typename Work>
  void ForEach(const Work& work) {
    try {
      for (size_t item = Next(); item < num_items_; item = Next()) work(item);
    } catch (const std::bad_alloc&) {
      out_of_memory_.store(true, std::memory_order_relaxed);
      next_.store(num_items_, std::memory_order_relaxed);
    }
  }

  // Returns whether `work` threw. To be called when every ForEach has returned.
  bool out_of_memory() const { return out_of_memory_.load(std::memory_order_relaxed); }

 private:
  size_t Next() { return next_.fetch_add(1, std::memory_order_relaxed); }

  const size_t num_items_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> out_of_memory_{false};
};

// Runs one function on several threads at the same time. Thread-safe: several threads may call Run at the same time.
// Each caller's thread works on its own call, and free workers join the oldest call that has a free slot (a call has
// parallelism() slots, one of them its caller's).
class ThreadPool {
 public:
  // Starts parallelism - 1 threads. `parallelism` >= 1 is the number of threads of one call, including the caller's. If
  // the system cannot start a thread, the pool has only the threads that it started until that point.
  explicit ThreadPool(int parallelism);

  // Ends the threads. No call may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns the largest number of threads that one call can have. The number is less than the constructor's
  // `parallelism` if the system could not start all threads.
  int parallelism() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(0) on the calling thread. Until that call returns, each worker that becomes free calls work(slot) too,
  // with a slot of 1 .. parallelism() - 1 that no other worker has used. `work` must claim its share of the job by
  // itself (SharedItems), so that any number of threads can take part. Run returns when every call of `work` has
  // returned; everything that these calls wrote is then visible to the caller. `work` must neither throw nor call Run.
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
