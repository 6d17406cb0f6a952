// What the process may use of the machine it runs on. Linux; containers' limits (cgroup v1 and v2) are respected.
#pragma once

#include <cstddef>
#include <string>

namespace maxsim::cpu {

// The processor's name as its vendor gives it, or "unknown".
std::string CpuModelName();

// Cores this process may run on: its affinity, and its cgroup's CPU quota rounded up. At least 1.
int AvailableCores();

// Physical memory, or the cgroup's limit where that is lower. 0 when neither can be read.
size_t MemoryBytes();

// Memory that can be taken without swapping, or what the cgroup's limit leaves where that is less.
size_t AvailableMemoryBytes();

}  // namespace maxsim::cpu
