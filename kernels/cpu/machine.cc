#include "kernels/cpu/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace maxsim::cpu {
namespace {

// Returns word `word` (from 0) of a file as a number; nullopt if there is no such file or word, or it is not a number,
// such as "max".
std::optional<int64_t> ReadNumber(const std::string& path, int word = 0) {
  std::ifstream file(path);
  std::string text;
  for (int idx = 0; idx <= word; ++idx) {
    if (!(file >> text)) return std::nullopt;
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// Returns the number after `key` in a file of "key number" lines; 0 if there is no such key.
int64_t ReadEntry(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  std::string name;
  for (int64_t value = 0; file >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

// Returns, in bytes, the value of a line such as "MemTotal:   123 kB" of /proc/meminfo. `key` includes the colon.
size_t ReadMeminfo(absl::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0;
  for (std::string unit; file >> name >> kilobytes && std::getline(file, unit);) {
    if (name == key) return static_cast<size_t>(kilobytes) * 1024;
  }
  return 0;
}

// The files of one version of control groups.
struct CgroupFiles {
  const char* memory_limit;
  const char* memory_usage;
  const char* inactive_file;  // a key in memory.stat: bytes of the group and of all groups below it
};
constexpr CgroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};

template <typename T>
void Lower(std::optional<T>* limit, T value) {
  limit->emplace(limit->has_value() ? std::min(**limit, value) : value);
}

void ReadMemory(const std::string& folder, const CgroupFiles& files, CgroupLimits* limits) {
  const std::optional<int64_t> limit = ReadNumber(folder + files.memory_limit);
  if (!limit.has_value() || *limit < 0) return;
  const int64_t usage = ReadNumber(folder + files.memory_usage).value_or(0);
  const int64_t working_set = std::max<int64_t>(usage - ReadEntry(folder + "/memory.stat", files.inactive_file), 0);
  Lower(&limits->memory_bytes, static_cast<size_t>(*limit));
  Lower(&limits->free_memory_bytes, static_cast<size_t>(std::max<int64_t>(*limit - working_set, 0)));
}

void ReadCpus(std::optional<int64_t> quota, std::optional<int64_t> period, CgroupLimits* limits) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  Lower(&limits->cpus, static_cast<double>(*quota) / static_cast<double>(*period));
}

// Calls read(folder) for the control group `path` below the mount point `mount`, and for every group above it.
void ForEachGroup(const std::string& mount, std::string path, absl::FunctionRef<void(const std::string&)> read) {
  // A path with ".." is outside of what this process sees, so only reads the root. In a container, the path may not
  // exist below the mount, which shows the container's own group as its root. Then reading its files finds nothing, and
  // the root is read.
  if (absl::StrContains(path, "..")) path.clear();
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    read(mount + path);
    if (path.empty()) return;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

// Returns the name of an Arm core from the two numbers in /proc/cpuinfo. Knows only Arm's own server cores; for others,
// returns a text with the numbers.
std::string ArmModelName(absl::string_view implementer, absl::string_view part) {
  constexpr std::pair<const char*, const char*> kServerParts[] = {
      {"0xd08", "Cortex-A72"},  {"0xd0c", "Neoverse-N1"}, {"0xd40", "Neoverse-V1"}, {"0xd49", "Neoverse-N2"},
      {"0xd4f", "Neoverse-V2"}, {"0xd84", "Neoverse-V3"}, {"0xd8e", "Neoverse-N3"}};
  if (implementer == "0x41") {
    for (const auto& [number, name] : kServerParts) {
      if (part == number) return name;
    }
  }
  return absl::StrCat("Arm implementer ", implementer, " part ", part);
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  CgroupLimits limits;
  const std::string mount = root + "/sys/fs/cgroup";
  const auto read_version2 = [&](const std::string& folder) {
    ReadMemory(folder, kVersion2, &limits);
    ReadCpus(ReadNumber(folder + "/cpu.max", 0), ReadNumber(folder + "/cpu.max", 1), &limits);
  };
  const auto read_memory1 = [&](const std::string& folder) { ReadMemory(folder, kVersion1, &limits); };
  const auto read_cpu1 = [&](const std::string& folder) {
    ReadCpus(ReadNumber(folder + "/cpu.cfs_quota_us"), ReadNumber(folder + "/cpu.cfs_period_us"), &limits);
  };
  // Lines are "number:controllers:path". The line of cgroup version 2 has number 0 and no controllers. Without this
  // file, reads the root groups.
  std::ifstream file(root + "/proc/self/cgroup");
  std::string memory_path;
  std::string cpu_path;
  std::string path;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    for (absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller == "memory") memory_path = parts[2];
      if (controller == "cpu") cpu_path = parts[2];
      if (controller.empty()) path = parts[2];
    }
  }
  ForEachGroup(mount, path, read_version2);
  ForEachGroup(mount + "/memory", memory_path, read_memory1);
  ForEachGroup(mount + "/cpu", cpu_path, read_cpu1);
  return limits;
}

std::string CpuModelName(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  std::string implementer;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() != 2) continue;
    const absl::string_view key = absl::StripAsciiWhitespace(parts[0]);
    const absl::string_view value = absl::StripAsciiWhitespace(parts[1]);
    if (key == "model name") return std::string(value);
    if (key == "CPU implementer") implementer = std::string(value);
    if (key == "CPU part") return ArmModelName(implementer, value);
  }
  return "unknown";
}

int AvailableCores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof(affinity), &affinity) == 0) cores = CPU_COUNT(&affinity);
  if (const std::optional<double> cpus = ReadCgroupLimits().cpus) {
    cores = std::min(cores, static_cast<int>(std::min(*cpus + 0.999, 1e6)));
  }
  return std::max(cores, 1);
}

size_t MemoryBytes() {
  const size_t physical = ReadMeminfo("MemTotal:");
  return std::min(physical, ReadCgroupLimits().memory_bytes.value_or(physical));
}

size_t AvailableMemoryBytes() {
  const size_t available = ReadMeminfo("MemAvailable:");
  return std::min(available, ReadCgroupLimits().free_memory_bytes.value_or(available));
}

}  // namespace maxsim::cpu
