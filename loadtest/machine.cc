#include "loadtest/machine.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace maxsim::loadtest {

int NumProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

MachineTicks ReadMachineTicks() {
  // "cpu  user nice system idle iowait irq softirq steal guest guest_nice", the last two within the first two.
  std::ifstream file("/proc/stat");
  std::string name;
  MachineTicks ticks;
  if (!(file >> name) || name != "cpu") return ticks;
  int64_t value = 0;
  for (int field = 0; field < 8 && file >> value; ++field) {
    ticks.total += value;
    if (field != 3 && field != 4) ticks.busy += value;
  }
  return ticks;
}

double BusyShare(const MachineTicks& before, const MachineTicks& after) {
  if (after.total <= before.total) return -1;
  return static_cast<double>(after.busy - before.busy) / static_cast<double>(after.total - before.total);
}

}  // namespace maxsim::loadtest
