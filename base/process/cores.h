// The cores that this process may run on.
#pragma once

namespace maxsim {

// Returns how many cores this process may run on: those of its affinity, at least 1. A cgroup's quota is not counted.
int NumCores();

// Returns `num_threads`, or one thread per core where it is 0 or less, as options write "all cores".
inline int ThreadsOrOnePerCore(int num_threads) { return num_threads > 0 ? num_threads : NumCores(); }

}  // namespace maxsim
