// Host side of one instance of the wide kernel. Only the files in instantiations/ include it.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/hopper_wide/kernel.cuh"
#include "kernels/cuda/score/hopper_wide/kernel.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kSteps>
cudaError_t WideKernelLauncher<kType, kSteps>::Prepare() {
  return cudaFuncSetAttribute(WideKernel<kType, kSteps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              WideSharedBytes(WideHalves(kSteps)));
}

template <ScalarType kType, int kSteps>
cudaError_t WideKernelLauncher<kType, kSteps>::Launch(const ScorePlan& plan, const DocumentMaps& maps,
                                                      const WideParams& params, cudaStream_t stream) {
  return LaunchKernel(WideKernel<kType, kSteps>, plan.grid(), plan.threads, static_cast<size_t>(plan.shared_bytes),
                      stream, maps, params);
}

}  // namespace maxsim::cuda::sm90
