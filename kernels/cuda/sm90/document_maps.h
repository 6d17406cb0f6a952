// Tensor maps of a shard's token array: what the copy engine needs to know of it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Rows of the boxes that the maps copy. A tile of any number of tokens is covered with fewer than kLowBoxRows rows too
// many. A box's columns are 128 bytes, swizzled.
inline constexpr int32_t kHighBoxRows = 128;
inline constexpr int32_t kMiddleBoxRows = 32;
inline constexpr int32_t kLowBoxRows = 8;

// Passed by value to kernels (__grid_constant__).
struct DocumentMaps {
  CUtensorMap high;
  CUtensorMap middle;
  CUtensorMap low;
};

// Describes the array [num_tokens, row_bytes] at `tokens` in device memory. The driver has no such call before
// Hopper's: UNIMPLEMENTED then. INVALID_ARGUMENT, naming it, for a value that the driver refuses: rows beyond 2^31,
// say.
absl::Status DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                               DocumentMaps& maps);

}  // namespace maxsim::cuda::sm90
