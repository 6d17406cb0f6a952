// The error of a launch for which no kernel has been instantiated.
#pragma once

#include <cuda_runtime_api.h>

namespace maxsim::cuda {

// CUDA returns other errors for kernels that it cannot run, so callers can tell a missing instance from a failed
// launch.
inline constexpr cudaError_t kNoInstance = cudaErrorInvalidSymbol;

}  // namespace maxsim::cuda
