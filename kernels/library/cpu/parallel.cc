#include "kernels/library/cpu/parallel.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
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
// It is never destroyed, since a thread of the host program may still be in a call when the process exits.
ThreadPool* pool = nullptr;

// A fork copies the calling thread alone, so that the child has a pool without threads. It is left as it is, and the
// child's first call makes another.
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

// Gives the thread the default floating-point environment (rounding to nearest, denormals kept), and its own one back
// when it ends. The caller may flush denormals, as PyTorch does on request, and a worker has the environment of the
// thread that started it; the bits of a result must depend on neither.
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
  std::atomic<int64_t> next{0};
  std::atomic<bool> out_of_memory{false};
  const auto run = [&](int slot) {
    if (slot >= num_threads) return;
    const DefaultFloatingPoint environment;
    try {
      for (int64_t item = next.fetch_add(1, std::memory_order_relaxed); item < num_items;
           item = next.fetch_add(1, std::memory_order_relaxed)) {
        work(slot, item);
      }
    } catch (const std::bad_alloc&) {
      // An exception must leave neither a worker, where it would end the process, nor the pool's Run.
      out_of_memory.store(true, std::memory_order_relaxed);
      next.store(num_items, std::memory_order_relaxed);
    }
  };
  if (num_threads < 2 || num_items < 2) {
    run(0);
  } else {
    Pool().Run(run);
  }
  if (out_of_memory.load(std::memory_order_relaxed)) return {MAXSIM_OUT_OF_MEMORY, "no host memory for the call"};
  return {};
}

}  // namespace maxsim::library
