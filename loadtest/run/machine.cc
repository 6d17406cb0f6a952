#include "loadtest/run/machine.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace maxsim::loadtest {

namespace {

// Returns the processors that this process may use, or an empty set if the system does not say which.
cpu_set_t Processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) CPU_ZERO(&set);
  return set;
}

}  // namespace

int NumProcessors() {
  const cpu_set_t processors = Processors();
  if (const int count = CPU_COUNT(&processors); count > 0) return count;
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
  std::ifstream file("/proc/stat");
  return ParseMachineTicks(file, Processors());
}

MachineTicks ParseMachineTicks(std::istream& stat, const cpu_set_t& processors) {
  // A line is "cpuN user nice system idle iowait irq softirq steal guest guest_nice", where user and nice contain the
  // last two.
  MachineTicks ticks;
  for (std::string line; std::getline(stat, line);) {
    std::istringstream fields(line);
    std::string word;
    fields >> word;
    absl::string_view name = word;
    int processor = 0;
    if (!absl::ConsumePrefix(&name, "cpu")) continue;
    // The line "cpu" without a number sums up all processors.
    const bool counts = absl::SimpleAtoi(name, &processor)
                            ? processor >= 0 && processor < CPU_SETSIZE && CPU_ISSET(processor, &processors)
                            : name.empty() && CPU_COUNT(&processors) == 0;
    if (!counts) continue;
    int64_t value = 0;
    for (int field = 0; field < 8 && fields >> value; ++field) {
      ticks.total += value;
      if (field != 3 && field != 4) ticks.busy += value;
    }
  }
  return ticks;
}

double BusyShare(const MachineTicks& before, const MachineTicks& after) {
  if (after.total <= before.total) return -1;
  return static_cast<double>(after.busy - before.busy) / static_cast<double>(after.total - before.total);
}

}  // namespace maxsim::loadtest
