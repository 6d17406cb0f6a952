// Launches of the Hopper kernels that scan codes, which need a device of compute capability 9.0. The results have the
// same bits as those of the kernels for every device (kernels/cuda/codes/scan_launch.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/codes/code_layout.h"
#include "kernels/codes/codes.h"
#include "kernels/cuda/codes/common/scan_params.h"
#include "kernels/cuda/codes/hopper/many_shape.h"

namespace maxsim::cuda::sm90 {

// Returns whether the kernels scan codes of this shape.
constexpr bool IsHopperShape(const CodeShape& shape) { return !shape.factors && shape.dim <= kCodeGroupColumns; }

// Lets the kernels use the shared memory that they need on the current device. To be called once per device.
cudaError_t PrepareScanOne();
cudaError_t PrepareScanMany();

// Enqueue a scan of 1, 2 or 4 planes, of codes of an IsHopperShape, with at least one candidate. LaunchScanOne requires
// IsScanOfOne and no list of ordinals. Its kernel also multiplies the documents that the mask leaves out.
// LaunchScanMany scans the queries of one pass (kernels/cuda/codes/hopper/passes.h).
cudaError_t LaunchScanOne(const ScanParams& params, int planes, int32_t num_sms, cudaStream_t stream);
cudaError_t LaunchScanMany(const ScanParams& params, const ManyPass& pass, int planes, int32_t num_sms,
                           cudaStream_t stream);

}  // namespace maxsim::cuda::sm90
