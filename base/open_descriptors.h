// The file descriptors that this process has open, and may have.
#pragma once

#include <cstdint>
#include <optional>

namespace maxsim {

// Counts the open descriptors, without the one that counting takes. Returns nullopt where /proc does not tell.
std::optional<int64_t> CountOpenDescriptors();

// Returns the number of descriptors that the process may have open now, UINT64_MAX where it is unknown.
uint64_t DescriptorLimit();

}  // namespace maxsim
