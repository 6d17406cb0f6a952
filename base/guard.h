// This is where memory that runs out stops being an exception: at the edges, so that it fails one request and not the
// process. Nothing can be done inside gRPC, whose own threads have no handler for an exception and whose gpr_malloc
// aborts the process, nor while a batch is scored, when a device may still be working in the memory that an exception
// would free. abseil's hash containers do not survive an allocation that throws: what grows with a request uses the
// standard library's.
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
