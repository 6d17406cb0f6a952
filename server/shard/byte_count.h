// Sizes as people write them on command lines.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::shard {

// "4GiB", "512M", "1500000", "1.5 GB": K, M, G and T (with or without B) are powers of 1000, Ki, Mi, Gi and Ti powers
// of 1024; case does not matter. INVALID_ARGUMENT for anything else, for zero and for what passes 2^63 - 1.
absl::StatusOr<int64_t> ParseByteCount(std::string_view text);

}  // namespace maxsim::shard
