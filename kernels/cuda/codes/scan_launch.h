// Launches of the kernels that scan codes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/codes/code_layout.h"
#include "kernels/codes/codes.h"
#include "kernels/cuda/codes/common/scan_params.h"

namespace maxsim::cuda {

// Returns whether LaunchScanOne scans codes of this shape with this many row tiles of one query.
constexpr bool IsScanOfOne(const CodeShape& shape, int32_t num_queries, int32_t num_row_tiles) {
  return !shape.factors && num_queries == 1 && num_row_tiles == 2 && shape.dim <= kCodeGroupColumns;
}

// Enqueue a scan of 1, 2 or 4 planes with at least one candidate. LaunchScanOne requires IsScanOfOne; LaunchScanMany
// takes any scan. Both give the same bits.
cudaError_t LaunchScanOne(const ScanParams& params, int planes, int32_t num_sms, cudaStream_t stream);
cudaError_t LaunchScanMany(const ScanParams& params, int planes, int32_t num_sms, cudaStream_t stream);

}  // namespace maxsim::cuda
