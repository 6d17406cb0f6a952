// The cores that this process may run on.
#pragma once

namespace maxsim {

// Returns the number of cores in this process's CPU affinity, at least 1. Ignores a cgroup's CPU quota.
int NumCores();

// Returns `num_threads` or, if it is 0 or less (the value of options for "all cores"), one thread per core.
inline int ThreadsOrOnePerCore(int num_threads) { return num_threads > 0 ? num_threads : NumCores(); }

}  // namespace maxsim
