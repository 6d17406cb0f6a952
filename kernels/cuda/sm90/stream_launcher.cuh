// Host side of one instance of the stream kernel; included by the files in instantiations/ alone.
#pragma once

#include "kernels/cuda/grid_order.cuh"
#include "kernels/cuda/sm90/score_launch.h"
#include "kernels/cuda/sm90/stream_kernel.cuh"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kSteps>
cudaError_t StreamKernelLauncher<kType, kSteps>::Prepare() {
  return cudaFuncSetAttribute(StreamKernel<kType, kSteps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              kSteps > 0 ? kStreamRegisterShape.Layout().total : kStreamSharedBytes);
}

template <ScalarType kType, int kSteps>
cudaError_t StreamKernelLauncher<kType, kSteps>::Launch(const ScorePlan& plan, const ScoreParams& params,
                                                        cudaStream_t stream) {
  return LaunchOverlapping(StreamKernel<kType, kSteps>, plan.grid(), plan.threads, plan.shared_bytes, stream, params);
}

}  // namespace maxsim::cuda::sm90
