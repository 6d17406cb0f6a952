// Making tensor maps (document_maps.h). Thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Writes to `maps` the tensor maps of the array [num_tokens, row_bytes] at `tokens` in device memory. Returns
// UNIMPLEMENTED if the driver is too old to make tensor maps, and INVALID_ARGUMENT if it refuses the array, for example
// because it has more than 2^31 rows.
absl::Status DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                               DocumentMaps& maps);

// Writes to `map` the tensor map of the array [num_rows, row_bytes] at `rows` in device memory, for the deep kernel
// `tile`. The array consists of whole query tiles (32 rows). Returns the errors of DescribeDocuments.
absl::Status DescribeQueries(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, ScoreTile tile,
                             QueryMap& map);

}  // namespace maxsim::cuda::sm90
