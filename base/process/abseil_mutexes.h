// How Abseil's mutexes, on which gRPC stands, behave in this process.
#pragma once

#include "absl/synchronization/mutex.h"

namespace maxsim {

// Ends the search for deadlocks that each lock of an absl::Mutex begins where Abseil was compiled without NDEBUG, as
// Debian's and Ubuntu's packages are. All searches of a process take turns, and calls of gRPC lock many mutexes. It is
// called at the beginning of a program that answers or sends many calls; unit tests keep the search.
inline void SkipDeadlockSearch() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace maxsim
