// Configures Abseil's mutexes, which gRPC uses.
#pragma once

#include "absl/synchronization/mutex.h"

namespace maxsim {

// Turns off Abseil's deadlock detection. If Abseil was compiled without NDEBUG, like the packages of Debian and Ubuntu,
// each lock of an absl::Mutex searches for deadlocks. Only one thread can search at a time, and gRPC calls lock many
// mutexes. Programs that answer or send many calls call this at their start; unit tests keep the detection.
inline void SkipDeadlockSearch() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace maxsim
