// Host side of one instance of the portable kernel. Only the files in instantiations/ include it.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/portable/kernel.cuh"
#include "kernels/cuda/score/portable/kernel.h"

namespace maxsim::cuda {

template <ScalarType kType, ScoreTile kTile, bool kResident, bool kAlign>
cudaError_t PortableKernelLauncher<kType, kTile, kResident, kAlign>::Prepare(int shared_bytes) {
  return cudaFuncSetAttribute(sm80::PortableKernel<kType, kTile, kResident, kAlign>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

template <ScalarType kType, ScoreTile kTile, bool kResident, bool kAlign>
cudaError_t PortableKernelLauncher<kType, kTile, kResident, kAlign>::Launch(const ScorePlan& plan,
                                                                            const PortableParams& params,
                                                                            cudaStream_t stream) {
  return LaunchKernel(sm80::PortableKernel<kType, kTile, kResident, kAlign>, plan.grid(), plan.threads,
                      static_cast<size_t>(plan.shared_bytes), stream, params);
}

}  // namespace maxsim::cuda
