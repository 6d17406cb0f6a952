// The error of a launch for which no kernel has been instantiated.
#pragma once

#include <cuda_runtime_api.h>

namespace maxsim::cuda {

// CUDA itself returns other errors for kernels that it cannot run.
inline constexpr cudaError_t kNoInstance = cudaErrorInvalidSymbol;

}  // namespace maxsim::cuda
