// Host side of one instance of the stream kernel; included by the files in instantiations/ alone.
#pragma once

#include "kernels/cuda/sm90/early_launch.h"
#include "kernels/cuda/sm90/score_launch.h"
#include "kernels/cuda/sm90/stream_kernel.cuh"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kSteps>
cudaError_t StreamKernelLauncher<kType, kSteps>::Prepare() {
  return cudaFuncSetAttribute(StreamKernel<kType, kSteps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              StreamLayoutOf().total);
}

template <ScalarType kType, int kSteps>
cudaError_t StreamKernelLauncher<kType, kSteps>::Launch(const ScorePlan& plan, const ScoreParams& params, bool early,
                                                        cudaStream_t stream) {
  return LaunchWithPlan(plan, early, stream, StreamKernel<kType, kSteps>, params);
}

}  // namespace maxsim::cuda::sm90
