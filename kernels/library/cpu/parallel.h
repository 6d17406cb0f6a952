// The thread pool for the library's CPU calls. All calls of the process share it.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// Returns the maximum number of threads, at least 1 and with the caller's own, for a call with maxsim_call::num_threads
// = `wanted`.
int NumThreads(int32_t wanted);

// Calls work(slot, item) for every item below `num_items`. `slot` is the number of the thread, below `num_threads`
// (from NumThreads). Any thread may get any item, but each gets its items in ascending order. Items run in the default
// floating-point environment, not in the caller's. Returns MAXSIM_OUT_OF_MEMORY if an item throws std::bad_alloc; some
// items are then not done. Thread-safe, and works in a child process after a fork.
Status ForEachItem(int num_threads, int64_t num_items, absl::FunctionRef<void(int slot, int64_t item)> work);

}  // namespace maxsim::library
