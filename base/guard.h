// Turns std::bad_alloc into an error of one request, so that it does not end the process. Used where a request enters
// this project's code. Two places cannot be guarded: gRPC (its own threads handle no exceptions, and gpr_malloc
// aborts the process), and the scoring of a batch (a device may still use the memory that an exception would free).
// Abseil's hash containers do not survive an allocation that throws, so containers that grow with a request must be
// standard ones.
#pragma once

#include <new>

#include "absl/status/status.h"

namespace maxsim {

// Returns RESOURCE_EXHAUSTED without RetryInfo. Allocates nothing. Must not be called before main.
[[gnu::cold]] absl::Status NoMemory();

// Runs `work`, which returns a Status or a StatusOr, and returns its result. Returns NoMemory() if it throws
// std::bad_alloc.
template <typename Work>
auto Guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

}  // namespace maxsim
