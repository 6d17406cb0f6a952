// Processor time: of this process, and of the processors that it may use.
#pragma once

#include <sched.h>

#include <cstdint>
#include <istream>

namespace maxsim::loadtest {

// Processors that this process may use.
int NumProcessors();

// User and system time of this process so far.
double ProcessCpuSeconds();

// Ticks since the machine started, by anyone, of the processors that this process may use; of all where the system does
// not say which those are.
struct MachineTicks {
  int64_t busy = 0, total = 0;
};
MachineTicks ReadMachineTicks();

// Returns the ticks of the processors of the set, or of all where it is empty, out of what /proc/stat says. Zeros where
// that names none of them.
MachineTicks ParseMachineTicks(std::istream& stat, const cpu_set_t& processors);

// Returns the share that was used between two readings; -1 where they tell nothing.
double BusyShare(const MachineTicks& before, const MachineTicks& after);

}  // namespace maxsim::loadtest
