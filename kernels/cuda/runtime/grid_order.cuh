// Programmatic dependent launch (sm_90 on): a kernel starts while the grid before it in the CUDA stream still drains,
// sets itself up, and waits where it first needs what that grid has written. This saves one to two microseconds a
// kernel. The wide scoring kernels do without it, because ptxas would serialise their wgmma.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {

// Waits until all grids before this one in the CUDA stream have ended and everything that they wrote is visible. Every
// thread calls it before it reads or writes anything that they touch. A kernel that does not call it is not ordered at
// all when it is launched by LaunchOverlapping.
__device__ __forceinline__ void WaitForEarlierGrids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next grid of the CUDA stream start as soon as all thread blocks of this one have called this, or ended, and
// there is room. For grids whose thread blocks all run at once: thread blocks that are still queued would have to share
// the multiprocessors with the next grid.
__device__ __forceinline__ void LetNextGridStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel that calls WaitForEarlierGrids and whose code is of sm_90 or later (see FindGridOrder).
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

// Launches like LaunchOverlapping if `overlap`; else the kernel starts when the one before it has ended.
template <class... Params, class... Args>
cudaError_t LaunchOverlappingIf(bool overlap, void (*kernel)(Params...), dim3 grid, dim3 threads, size_t shared_bytes,
                                cudaStream_t stream, const Args&... args) {
  return overlap ? LaunchOverlapping(kernel, grid, threads, shared_bytes, stream, args...)
                 : LaunchKernel(kernel, grid, threads, shared_bytes, stream, args...);
}

// Clears `overlap` if the code that the current device runs of a kernel was compiled for less than sm_90.
template <class... Params>
cudaError_t FindGridOrder(void (*kernel)(Params...), bool& overlap) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  overlap &= error == cudaSuccess && attributes.binaryVersion >= 90 && attributes.ptxVersion >= 90;
  return error;
}

}  // namespace maxsim::cuda
