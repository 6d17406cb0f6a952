// Kernels that only measure the device's limits. The functions launch on a CUDA stream and do not wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/scalar_type.h"

namespace maxsim::bench {

// Reads `bytes` (a multiple of 16) once. `sink` is one float that is never written in practice.
cudaError_t LaunchRead(const void* memory, size_t bytes, float* sink, cudaStream_t stream);

// Launches two thread blocks for each multiprocessor. Each warp runs `iterations` rounds of mma.sync (F16, BF16, I8) or
// of fused multiply-adds (F32). Sets *operations to the number of operations: a multiplication and an addition count as
// two.
cudaError_t LaunchMultiply(ScalarType type, int iterations, float* sink, double* operations, cudaStream_t stream);

// Like LaunchMultiply, but multiplies with wgmma, in F16, BF16 or I8. Needs compute capability 9.0.
cudaError_t LaunchWgmma(ScalarType type, int iterations, int num_sms, float* sink, double* operations,
                        cudaStream_t stream);

}  // namespace maxsim::bench
