// Making tensor maps (document_maps.h). Thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Describes the array [num_tokens, row_bytes] at `tokens` in device memory. Returns UNIMPLEMENTED if the driver is
// older than Hopper and has no such call, and INVALID_ARGUMENT, naming the value, if the driver refuses one: more than
// 2^31 rows, say.
absl::Status DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                               DocumentMaps& maps);

// Describes the array [num_rows, row_bytes] at `rows` in device memory, whole query tiles, for row tiles of `tile`.
// Returns the errors of DescribeDocuments.
absl::Status DescribeQueries(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, ScoreTile tile,
                             QueryMap& map);

}  // namespace maxsim::cuda::sm90
