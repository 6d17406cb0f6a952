// The resources of this machine that the process may use. They are read from Linux, and the limits that containers and
// units set (cgroup v1 and v2) are respected. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace maxsim::cpu {

// Returns the processor's name as its vendor gives it, or "unknown". On Arm, Linux gives only
// numbers. The function then returns, for example, "Neoverse-V2", or "Arm implementer 0x41 part 0xd07" if it does not
// know the numbers. It reads `root`/proc/cpuinfo. `root` is "" except in tests.
std::string CpuModelName(const std::string& root = "");

// The limits that control groups set for the process: for each resource the tightest limit among its own group and the
// groups above it. A member is nullopt if no group sets that limit.
struct CgroupLimits {
  std::optional<size_t> memory_bytes;
  // The bytes that may still be allocated. Page cache that the kernel drops under pressure counts as free, as in
  // Kubernetes' working set (usage less inactive_file): after a load most of the usage is the files that were read.
  std::optional<size_t> free_memory_bytes;
  std::optional<double> cpus;
};

// Reads `root`/proc/self/cgroup and `root`/sys/fs/cgroup. `root` is "" except in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// Returns how many cores this process may run on by its affinity and by its cgroup's CPU quota, which is rounded up. At
// least 1.
int AvailableCores();

// Returns the physical memory, or the cgroup's limit if it is lower. Returns 0 if neither can be read.
size_t MemoryBytes();

// Returns the memory that can be allocated without swapping. If the cgroup's limit leaves less, returns that. Page
// cache counts as free.
size_t AvailableMemoryBytes();

}  // namespace maxsim::cpu
