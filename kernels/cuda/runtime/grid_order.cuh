// Programmatic dependent launch (sm_90 and later): a kernel starts while the last thread blocks of the grid before it
// in the CUDA stream still run. The kernel sets itself up, and waits for that grid only before it reads the grid's
// results. This saves one to two microseconds per kernel. The wide scoring kernels do not use it, because ptxas would
// serialise their wgmma.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {

// Waits until all earlier grids in the CUDA stream have ended and everything that they wrote is visible. Every thread
// must call it before it reads or writes memory that these grids read or write. A kernel that does not call it, but is
// launched by LaunchOverlapping, is not ordered after earlier grids at all.
__device__ __forceinline__ void WaitForEarlierGrids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next grid of the CUDA stream start as soon as all thread blocks of this grid have called this function or
// ended, and the device has room. Only grids whose thread blocks all run at the same time should call it: thread blocks
// that are still queued would have to share the multiprocessors with the next grid.
__device__ __forceinline__ void LetNextGridStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel that calls WaitForEarlierGrids. Its code must be compiled for sm_90 or later (see FindGridOrder).
template <class... Params, class... Args>
cudaError_t LaunchOverlapping(void (*kernel)(Params...), dim3 grid, dim3 threads, size_t shared_bytes,
                              cudaStream_t stream, const Args&... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = LaunchConfig(grid, threads, shared_bytes, stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

// Launches like LaunchOverlapping if `overlap` is true. Otherwise the kernel starts when the kernel before it in the
// stream has ended.
template <class... Params, class... Args>
cudaError_t LaunchOverlappingIf(bool overlap, void (*kernel)(Params...), dim3 grid, dim3 threads, size_t shared_bytes,
                                cudaStream_t stream, const Args&... args) {
  return overlap ? LaunchOverlapping(kernel, grid, threads, shared_bytes, stream, args...)
                 : LaunchKernel(kernel, grid, threads, shared_bytes, stream, args...);
}

// Sets `overlap` to false if the code of the kernel that the current device runs was compiled for less than sm_90.
template <class... Params>
cudaError_t FindGridOrder(void (*kernel)(Params...), bool& overlap) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  overlap &= error == cudaSuccess && attributes.binaryVersion >= 90 && attributes.ptxVersion >= 90;
  return error;
}

}  // namespace maxsim::cuda
