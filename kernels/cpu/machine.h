// What the process may use of the machine it runs on. Linux; the limits of containers and units (cgroup v1 and v2) are
// respected.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace maxsim::cpu {

// The processor's name as its vendor gives it, or "unknown".
std::string CpuModelName();

// What the process's control groups allow: the tightest of its own group and those that this one lies in. nullopt where
// none of them has a limit.
struct CgroupLimits {
  std::optional<size_t> memory_bytes;
  // What may still be allocated. Page cache that the kernel drops under pressure counts as free, as in Kubernetes'
  // working set (usage less inactive_file): after a load most of the usage is the files that were read.
  std::optional<size_t> free_memory_bytes;
  std::optional<double> cpus;
};

// Reads `root`/proc/self/cgroup and `root`/sys/fs/cgroup; "" but in tests.
CgroupLimits ReadCgroupLimits(const std::string& root = "");

// Cores this process may run on: its affinity, and its cgroup's CPU quota rounded up. At least 1.
int AvailableCores();

// Physical memory, or the cgroup's limit where that is lower. 0 when neither can be read.
size_t MemoryBytes();

// Memory that can be taken without swapping, or what the cgroup's limit leaves where that is less. Page cache counts as
// free.
size_t AvailableMemoryBytes();

}  // namespace maxsim::cpu
