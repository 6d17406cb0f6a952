// How Abseil's mutexes, on which gRPC stands, behave in this process.
#pragma once

#include "absl/synchronization/mutex.h"

namespace maxsim {

// Ends the search for deadlocks that each lock of an absl::Mutex begins where Abseil was compiled without NDEBUG, as
// Debian's and Ubuntu's packages are: it is a tenth of what a call costs gRPC, under one lock of the whole process. It
// is called at the beginning of a program that answers or sends many calls; tests keep the search.
inline void SkipDeadlockSearch() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace maxsim
