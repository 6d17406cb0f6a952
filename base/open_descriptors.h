// The file descriptors that this process has open.
#pragma once

#include <cstdint>
#include <optional>

namespace maxsim {

// Counts the open descriptors, without the one that counting takes. Returns nullopt where /proc does not tell.
std::optional<int64_t> CountOpenDescriptors();

}  // namespace maxsim
