#include "kernels/thread_pool.h"

#include <system_error>

#include "base/thread_name.h"

namespace maxsim {

ThreadPool::ThreadPool(int parallelism) {
  workers_.reserve(parallelism - 1);
  try {
    for (int idx = 1; idx < parallelism; ++idx) workers_.emplace_back([this] { WorkerLoop(); });
  } catch (const std::system_error&) {
    // The system cannot start more threads, so the pool does with those it has. If the exception left this constructor,
    // the destructors of running threads would end the process.
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  job_added_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(absl::FunctionRef<void(int slot)> work) {
  if (workers_.empty()) return work(0);
  Job job{.work = work, .idle = {}};
  std::unique_lock<std::mutex> lock(mutex_);
  const auto place = jobs_.insert(jobs_.end(), &job);
  lock.unlock();
  job_added_.notify_all();
  work(0);
  lock.lock();
  // A worker takes the job off the list when it fills the last slot.
  if (job.next_slot < parallelism()) jobs_.erase(place);
  job.idle.wait(lock, [&job] { return job.num_active == 0; });
}

void ThreadPool::WorkerLoop() {
  NameThisThread("score");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    job_added_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job& job = *jobs_.front();
    const int slot = job.next_slot++;
    if (job.next_slot == parallelism()) jobs_.pop_front();
    ++job.num_active;
    lock.unlock();
    job.work(slot);
    lock.lock();
    // The caller is notified under the lock, since the job lies on the caller's stack and is gone once the caller has
    // seen that no worker is active.
    if (--job.num_active == 0) job.idle.notify_one();
  }
}

}  // namespace maxsim
