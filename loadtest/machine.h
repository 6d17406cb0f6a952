// Processor time: of this process, and of the machine.
#pragma once

#include <cstdint>

namespace maxsim::loadtest {

// Processors that this process may use.
int NumProcessors();

// User and system time of this process so far.
double ProcessCpuSeconds();

// Ticks of the machine's processors since it started, from /proc/stat.
struct MachineTicks {
  int64_t busy = 0, total = 0;
};
MachineTicks ReadMachineTicks();

// The share that was used between two readings; -1 where they tell nothing.
double BusyShare(const MachineTicks& before, const MachineTicks& after);

}  // namespace maxsim::loadtest
