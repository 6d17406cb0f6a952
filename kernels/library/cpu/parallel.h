// The thread pool of the library's CPU calls. All calls of the process share it.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// Returns the maximum number of threads that a call with maxsim_call::num_threads = `wanted` uses: the caller's own and
// those of the pool. At least 1.
int NumThreads(int32_t wanted);

// Calls work(slot, item) for every item below `num_items`. Slots are below `num_threads` (the result of NumThreads),
// and each slot is used by one thread. Any thread may get any item, but each slot gets its items in ascending order.
// Items always run in the default floating-point environment, not in the caller's. Returns MAXSIM_OUT_OF_MEMORY if an
// item throws std::bad_alloc; some items are then not done. Thread-safe. After a fork, the child process starts the
// threads again.
Status ForEachItem(int num_threads, int64_t num_items, absl::FunctionRef<void(int slot, int64_t item)> work);

}  // namespace maxsim::library
