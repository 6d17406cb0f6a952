// The thread pool of the library's CPU calls. All calls of the process share it.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// Returns the maximum number of threads that a call with maxsim_call::num_threads = `wanted` uses: the caller's own and
// those of the pool. At least 1.
int NumThreads(int32_t wanted);

// Calls work(slot, item) for every item below `num_items`. Slots are below `num_threads` (of NumThreads), and each is
// used by one thread; which thread has which item is not fixed. Items are claimed in order, so that a slot meets them
// in ascending order. Items run in the default floating-point environment, whatever the caller's is. Returns
// MAXSIM_OUT_OF_MEMORY when an item throws std::bad_alloc, which may leave others undone. Thread-safe. In a process
// that was forked the threads are started again.
Status ForEachItem(int num_threads, int64_t num_items, absl::FunctionRef<void(int slot, int64_t item)> work);

}  // namespace maxsim::library
