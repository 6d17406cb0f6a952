// Host side of one instance of the deep kernel. Only the files in instantiations/ include it.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/hopper_deep/kernel.cuh"
#include "kernels/cuda/score/hopper_deep/kernel.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, ScoreTile kTile>
cudaError_t DeepKernelLauncher<kType, kTile>::Prepare() {
  // Allows as much shared memory as the widest shape takes.
  int device = 0, shared_bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(DeepKernel<kType, kTile>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

template <ScalarType kType, ScoreTile kTile>
cudaError_t DeepKernelLauncher<kType, kTile>::Launch(const ScorePlan& plan, const DocumentMaps& maps,
                                                     const QueryMap& queries, const DeepParams& params,
                                                     cudaStream_t stream) {
  return LaunchKernel(DeepKernel<kType, kTile>, plan.grid(), plan.threads, static_cast<size_t>(plan.shared_bytes),
                      stream, maps, queries, params);
}

}  // namespace maxsim::cuda::sm90
