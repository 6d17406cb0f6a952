// Making tensor maps (document_maps.h). Thread-safe. The functions return cudaErrorNotSupported if the driver is older
// than Hopper and has no call that makes them, and cudaErrorInvalidValue if the driver refuses a value, such as more
// than 2^31 rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Describes the array [num_rows, row_bytes] at `rows` in device memory, in boxes of `box_rows` rows with 128 bytes of
// their columns, swizzled. `rows` and row_bytes must be multiples of 16.
cudaError_t DescribeRows(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, int32_t box_rows,
                         CUtensorMap& map);

// Describes the array [num_tokens, row_bytes] at `tokens` in device memory: DescribeRows for every number of octets.
cudaError_t DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                              DocumentMaps& maps);

// Describes the array [num_rows, row_bytes] at `rows` in device memory, whole query tiles, for row tiles of `tile`.
cudaError_t DescribeQueries(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, ScoreTile tile,
                            QueryMap& map);

}  // namespace maxsim::cuda::sm90
