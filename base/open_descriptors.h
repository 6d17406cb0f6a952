// Counts the file descriptors that this process has open, and says how many it may have.
#pragma once

#include <cstdint>
#include <optional>

namespace maxsim {

// Counts the open descriptors, without the one that counting takes. Returns nullopt if /proc does not tell.
std::optional<int64_t> CountOpenDescriptors();

// Returns the process's current limit on open descriptors (RLIMIT_NOFILE), or UINT64_MAX if it is unknown.
uint64_t DescriptorLimit();

}  // namespace maxsim
