// Launches a kernel and returns the error of that launch only, not of earlier calls.
#pragma once

#include <cuda_runtime.h>

namespace maxsim::cuda {

// Describes a launch without attributes.
inline cudaLaunchConfig_t LaunchConfig(dim3 grid, dim3 threads, size_t shared_bytes, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

// Does what `kernel<<<grid, threads, shared_bytes, stream>>>(args...)` does, and returns the launch's error.
// LaunchKernel does not call cudaGetLastError, because cudaGetLastError also returns errors of the thread's earlier
// calls, even of calls for other devices.
template <class... Params, class... Args>
cudaError_t LaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 threads, size_t shared_bytes, cudaStream_t stream,
                         const Args&... args) {
  const cudaLaunchConfig_t config = LaunchConfig(grid, threads, shared_bytes, stream);
  return cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

}  // namespace maxsim::cuda
