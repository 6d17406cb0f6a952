// The error of a launch for which no kernel has been instantiated.
#pragma once

#include <cuda_runtime_api.h>

namespace maxsim::cuda {

// The error of a launch whose plan names a kernel that was not instantiated. CUDA returns other errors for kernels that
// it cannot run, so callers can tell the two apart.
inline constexpr cudaError_t kNoInstance = cudaErrorInvalidSymbol;

}  // namespace maxsim::cuda
