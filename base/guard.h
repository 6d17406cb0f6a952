// Turns running out of memory into an error of one request, where a request enters our code, so that it does not end
// the process. Two places cannot be guarded: inside gRPC (its own threads handle no exception, and gpr_malloc aborts
// the process), and while a batch is scored (a device may still use the memory that an exception would free). abseil's
// hash containers do not survive an allocation that throws, so containers that grow with a request are those of the
// standard library.
#pragma once

#include <new>

#include "absl/status/status.h"

namespace maxsim {

// Returns RESOURCE_EXHAUSTED without RetryInfo. It allocates nothing. Not for use before main.
absl::Status NoMemory();

// Runs `work`, which returns a Status or a StatusOr; std::bad_alloc becomes NoMemory().
template <typename Work>
auto Guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

}  // namespace maxsim
