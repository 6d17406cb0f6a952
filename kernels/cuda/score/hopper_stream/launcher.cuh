// Host side of one instance of the stream kernel. Only the files in instantiations/ include it.
#pragma once

#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/score/hopper_stream/kernel.cuh"
#include "kernels/cuda/score/hopper_stream/kernel.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kSteps>
cudaError_t StreamKernelLauncher<kType, kSteps>::Prepare() {
  for (auto* const kernel : {StreamKernel<kType, kSteps, false>, StreamKernel<kType, kSteps, true>}) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kSteps > 0 ? kStreamRegisterShape.Layout().total : kStreamSharedBytes);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <ScalarType kType, int kSteps>
cudaError_t StreamKernelLauncher<kType, kSteps>::Launch(const ScorePlan& plan, const StreamParams& params,
                                                        cudaStream_t stream) {
  const auto kernel = params.teams.blocks > 1 ? StreamKernel<kType, kSteps, true> : StreamKernel<kType, kSteps, false>;
  return LaunchOverlapping(kernel, params.work.blocks, plan.threads, plan.shared_bytes, stream, params);
}

}  // namespace maxsim::cuda::sm90
