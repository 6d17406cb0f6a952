// Launching a kernel with an error that is its own.
#pragma once

#include <cuda_runtime.h>

namespace maxsim::cuda {

inline cudaLaunchConfig_t LaunchConfig(dim3 grid, dim3 threads, size_t shared_bytes, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return config;
}

// What `kernel<<<grid, threads, shared_bytes, stream>>>(args...)` does, without asking cudaGetLastError for the error:
// that also returns those of the thread's earlier calls, for other devices too.
template <class... Params, class... Args>
cudaError_t LaunchKernel(void (*kernel)(Params...), dim3 grid, dim3 threads, size_t shared_bytes, cudaStream_t stream,
                         const Args&... args) {
  const cudaLaunchConfig_t config = LaunchConfig(grid, threads, shared_bytes, stream);
  return cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

}  // namespace maxsim::cuda
