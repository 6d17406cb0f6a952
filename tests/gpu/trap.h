// Breaks a device on purpose.
#pragma once

#include <cuda_runtime_api.h>

namespace maxsim::test {

// Launches a kernel that traps: the context is lost for the rest of the process.
cudaError_t LaunchTrap(cudaStream_t stream);

}  // namespace maxsim::test
