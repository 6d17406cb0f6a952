// Host side of one instance of the stream kernel; included by the files in instantiations/ alone.
#pragma once

#include "kernels/cuda/sm90/score_launch.h"
#include "kernels/cuda/sm90/stream_kernel.cuh"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kSteps, int kBlocks>
cudaError_t StreamKernelLauncher<kType, kSteps, kBlocks>::Prepare() {
  return cudaFuncSetAttribute(StreamKernel<kType, kSteps, kBlocks>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              StreamLayoutOf(kBlocks).total);
}

template <ScalarType kType, int kSteps, int kBlocks>
cudaError_t StreamKernelLauncher<kType, kSteps, kBlocks>::Launch(const ScorePlan& plan, const ScoreParams& params,
                                                                 cudaStream_t stream) {
  StreamKernel<kType, kSteps, kBlocks><<<plan.grid(), plan.threads, plan.shared_bytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace maxsim::cuda::sm90
