#include "kernels/cpu/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace maxsim::cpu {
namespace {

// The number that makes up the first word of a file; nullopt when there is no file or the word is "max".
std::optional<int64_t> ReadNumber(const char* path, int word = 0) {
  std::ifstream file(path);
  std::string text;
  for (int idx = 0; idx <= word; ++idx) {
    if (!(file >> text)) return std::nullopt;
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// A line "Key:   123 kB" of /proc/meminfo, in bytes.
size_t ReadMeminfo(absl::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  for (std::string unit; file >> name >> kilobytes && std::getline(file, unit);) {
    if (name == key) return static_cast<size_t>(kilobytes) * 1024;
  }
  return 0;
}

struct CgroupMemory {
  std::optional<int64_t> limit;
  int64_t used = 0;
};

CgroupMemory ReadCgroupMemory() {
  CgroupMemory memory;
  memory.limit = ReadNumber("/sys/fs/cgroup/memory.max");
  memory.used = ReadNumber("/sys/fs/cgroup/memory.current").value_or(0);
  if (!memory.limit) {
    memory.limit = ReadNumber("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    memory.used = ReadNumber("/sys/fs/cgroup/memory/memory.usage_in_bytes").value_or(0);
  }
  return memory;
}

// CPUs' worth of time the cgroup may use, or nullopt.
std::optional<double> ReadCpuQuota() {
  std::optional<int64_t> quota = ReadNumber("/sys/fs/cgroup/cpu.max", 0);
  std::optional<int64_t> period = ReadNumber("/sys/fs/cgroup/cpu.max", 1);
  if (!quota) {
    quota = ReadNumber("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = ReadNumber("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::string CpuModelName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2 && absl::StripAsciiWhitespace(parts[0]) == "model name") {
      return std::string(absl::StripAsciiWhitespace(parts[1]));
    }
  }
  return "unknown";
}

int AvailableCores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof(affinity), &affinity) == 0) cores = CPU_COUNT(&affinity);
  if (std::optional<double> quota = ReadCpuQuota()) {
    cores = std::min(cores, static_cast<int>(std::min(*quota + 0.999, 1e6)));
  }
  return std::max(cores, 1);
}

size_t MemoryBytes() {
  const size_t physical = ReadMeminfo("MemTotal:");
  const CgroupMemory cgroup = ReadCgroupMemory();
  return cgroup.limit ? std::min(physical, static_cast<size_t>(*cgroup.limit)) : physical;
}

size_t AvailableMemoryBytes() {
  const size_t available = ReadMeminfo("MemAvailable:");
  const CgroupMemory cgroup = ReadCgroupMemory();
  if (!cgroup.limit) return available;
  return std::min(available, static_cast<size_t>(std::max<int64_t>(*cgroup.limit - cgroup.used, 0)));
}

}  // namespace maxsim::cpu
