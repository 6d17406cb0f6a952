// Host side of one instance of the wide kernel; included by the files in instantiations/ alone.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/hopper_common/launch.h"
#include "kernels/cuda/score/hopper_wide/kernel.cuh"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kSteps>
cudaError_t ScoreKernelLauncher<kType, kSteps>::Prepare() {
  return cudaFuncSetAttribute(ScoreKernel<kType, kSteps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              WideLayoutOf(WideHalves(kSteps)).total);
}

template <ScalarType kType, int kSteps>
cudaError_t ScoreKernelLauncher<kType, kSteps>::Launch(const ScorePlan& plan, const DocumentMaps& maps,
                                                       const ScoreParams& params, cudaStream_t stream) {
  return LaunchKernel(ScoreKernel<kType, kSteps>, plan.grid(), plan.threads, static_cast<size_t>(plan.shared_bytes),
                      stream, maps, params);
}

}  // namespace maxsim::cuda::sm90
