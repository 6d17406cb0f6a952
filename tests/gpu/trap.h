// Breaks a device on purpose.
#pragma once

#include <cuda_runtime_api.h>

namespace maxsim::test {

// Launches a kernel that traps. Afterwards the process can no longer use the device.
cudaError_t LaunchTrap(cudaStream_t stream);

}  // namespace maxsim::test
