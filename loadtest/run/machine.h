// Processor time of this process, and of the processors that it may use. All functions are thread-safe.
#pragma once

#include <sched.h>

#include <cstdint>
#include <istream>

namespace maxsim::loadtest {

// Returns the number of processors that this process may use.
int NumProcessors();

// Returns the user and system time of this process so far, in seconds.
double ProcessCpuSeconds();

// Clock ticks of some processors since the machine started, used by any process.
struct MachineTicks {
  int64_t busy = 0, total = 0;
};

// Returns the ticks of the processors that this process may use, or of all processors if the system does not say which
// it may use.
MachineTicks ReadMachineTicks();

// Parses `stat`, the text of /proc/stat. Returns the ticks of the processors in the set, or of all processors if the
// set is empty. Returns zeros if `stat` names none of the processors.
MachineTicks ParseMachineTicks(std::istream& stat, const cpu_set_t& processors);

// Returns the busy share, 0 to 1, of the ticks between two readings; -1 if there are no ticks between them.
double BusyShare(const MachineTicks& before, const MachineTicks& after);

}  // namespace maxsim::loadtest
