// Making tensor maps (document_maps.h). Thread-safe. The functions return cudaErrorNotSupported if
// cuTensorMapEncodeTiled cannot be found (drivers older than CUDA 12.0 do not have it), and cudaErrorInvalidValue if
// the driver refuses an argument, for example more than 2^31 rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Describes the array [num_rows, row_bytes] at `rows` in device memory, in boxes of `box_rows` rows with 128 bytes of
// their columns, swizzled. The address `rows` and row_bytes must be multiples of 16.
cudaError_t DescribeRows(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, int32_t box_rows,
                         CUtensorMap& map);

// Describes the array [num_tokens, row_bytes] at `tokens` in device memory: DescribeRows for every number of octets.
cudaError_t DescribeDocuments(ScalarType type, const void* tokens, int64_t num_tokens, int64_t row_bytes,
                              DocumentMaps& maps);

// Describes the array [num_rows, row_bytes] at `rows` in device memory, for the deep kernel `tile`. The array consists
// of whole query tiles (32 rows each).
cudaError_t DescribeQueries(ScalarType type, const void* rows, int64_t num_rows, int64_t row_bytes, ScoreTile tile,
                            QueryMap& map);

}  // namespace maxsim::cuda::sm90
