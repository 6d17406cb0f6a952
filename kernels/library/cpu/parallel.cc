#include "kernels/library/cpu/parallel.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "kernels/thread_pool.h"

namespace maxsim::library {
namespace {

// Returns how many cores the process may run on.
int NumCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::mutex pool_mutex;
// Never destroyed, because a thread of the host program may still be in a call when the process exits.
ThreadPool* pool = nullptr;

// A fork copies only the calling thread, so the child's pool has no threads. The child drops it, and makes a new one at
// its first call.
void BeforeFork() { pool_mutex.lock(); }
void AfterForkInParent() { pool_mutex.unlock(); }
void AfterForkInChild() {
  pool = nullptr;
  pool_mutex.unlock();
}

ThreadPool& Pool() {
  static const bool registered = pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild) == 0;
  static_cast<void>(registered);
  const std::lock_guard<std::mutex> lock(pool_mutex);
  if (pool == nullptr) pool = new ThreadPool(NumCores());
  return *pool;
}

// Gives its thread the default floating-point environment (rounding to nearest, denormals kept) until it is destroyed.
// So a result's bits do not depend on whether the caller flushes denormals (as PyTorch does on request), nor on the
// thread that started a worker, whose environment the worker inherits.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    fegetenv(&callers_);
    fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatingPoint() { fesetenv(&callers_); }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
  fenv_t callers_;
};

}  // namespace

int NumThreads(int32_t wanted) {
  const int cores = NumCores();
  return wanted == 0 ? cores : std::min(static_cast<int>(wanted), cores);
}

Status ForEachItem(int num_threads, int64_t num_items, absl::FunctionRef<void(int slot, int64_t item)> work) {
  SharedItems items(static_cast<size_t>(std::max<int64_t>(num_items, 0)));
  const auto run = [&](int slot) {
    if (slot >= num_threads) return;
    const DefaultFloatingPoint environment;
    items.ForEach([&](size_t item) { work(slot, static_cast<int64_t>(item)); });
  };
  if (num_threads < 2 || num_items < 2) {
    run(0);
  } else {
    Pool().Run(run);
  }
  if (items.out_of_memory()) return {MAXSIM_OUT_OF_MEMORY, "no host memory for the call"};
  return {};
}

}  // namespace maxsim::library
