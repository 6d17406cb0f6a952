// The cores and the memory that this process may use, within the limits of containers and systemd units (cgroup v1 and
// v2). Reads them from Linux. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace maxsim::cpu {

// Returns the processor's name from `root`/proc/cpuinfo, or "unknown". On Arm, Linux gives only numbers, so returns a
// known name such as "Neoverse-V2", or "Arm implementer 0x41 part 0xd07". `root` is "" except in tests.
std::string CpuModelName(const std::string& root = "");

// The limits of the process's control group and the groups above it: for each resource, the tightest one. A member is
// nullopt if no group sets this limit.
struct CgroupLimits {
  std::optional<size_t> memory_bytes;
  // The bytes that may still be allocated. Inactive page cache counts as free, as in Kubernetes' working set (usage
  // less inactive_file): after loading files, most of the usage is such cache.
  std::optional<size_t> free_memory_bytes;
  std::optional<double> cpus;
};

// Reads `root`/proc/self/cgroup and `root`/sys/fs/cgroup. `root` is "" except in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// Returns the number of cores that the process may use: the minimum of its affinity and its cgroup's CPU quota (rounded
// up), at least 1.
int AvailableCores();

// Returns the physical memory, or the cgroup's limit if it is lower. Returns 0 if neither can be read.
size_t MemoryBytes();

// Returns the memory in bytes that can be allocated without swapping, or what the cgroup's limit leaves if that is
// less. Page cache counts as free.
size_t AvailableMemoryBytes();

}  // namespace maxsim::cpu
