// The number of this process's open file descriptors, and their limit.
#pragma once

#include <cstdint>
#include <optional>

namespace maxsim {

// Counts the open descriptors, except the one that counting needs. Returns nullopt if /proc cannot be read.
std::optional<int64_t> CountOpenDescriptors();

// Returns the process's current limit on open descriptors (RLIMIT_NOFILE), or UINT64_MAX if it is unknown.
uint64_t DescriptorLimit();

}  // namespace maxsim
