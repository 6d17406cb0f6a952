// Kernels that reach the device's limits and do nothing else.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/scalar_type.h"

namespace maxsim::bench {

// Reads `bytes` (a multiple of 16) once. `sink` is one float that is never written in practice.
cudaError_t LaunchRead(const void* memory, size_t bytes, float* sink, cudaStream_t stream);

// Multiplies for `iterations` in every warp of a full grid; *flops is what that comes to. F16, BF16 or F32.
cudaError_t LaunchMultiply(ScalarType type, int iterations, float* sink, double* flops, cudaStream_t stream);

}  // namespace maxsim::bench
