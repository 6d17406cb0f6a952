// Tensor maps of a shard's token array and of a call's query rows: what the copy engine needs to know of them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/plan.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Passed by value to kernels (__grid_constant__). The copy engine takes longer over several boxes than over one, so
// there is one for every number of groups.
struct DocumentMaps {
  static constexpr int32_t kGroups = TileGroups(kWideTokens);

  CUtensorMap groups[kGroups];  // boxes of 8, 16, .. rows, of 128 bytes of their columns
};

// Describes the array [num_tokens, row_bytes] at `tokens` in device memory. The driver has no such call before
// Hopper's: UNIMPLEMENTED then. INVALID_ARGUMENT, naming it, for a value that the driver refuses: rows beyond 2^31,
// say.
absl::Status DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                               DocumentMaps& maps);

// Query rows as the deep kernels' operands want them: columns, 16 rows, the two halves of a block, blocks. A box has 64
// columns of one half of every block of a row tile.
struct QueryMap {
  CUtensorMap rows;
};

// Describes the array [num_rows, row_bytes] at `rows` in device memory, whole blocks, for row tiles of `tile`. Errors
// as DescribeDocuments'.
absl::Status DescribeQueries(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, ScoreTile tile,
                             QueryMap& map);

}  // namespace maxsim::cuda::sm90
