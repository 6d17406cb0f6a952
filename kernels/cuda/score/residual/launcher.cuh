// Host side of the kernels for one number of bits per code. Only the files in instantiations/ include it.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/score/residual/kernel.cuh"
#include "kernels/cuda/score/residual/kernel.h"
#include "kernels/residual_codes.h"

namespace maxsim::cuda {

template <int kNbits>
int32_t ResidualSharedBytes(bool resident, int32_t dim) {
  return CodedSharedOf(WeightTable<ScalarType::kF16, kNbits>::kBytes, resident, dim, ScalarType::kF16).total;
}

template <int kNbits>
cudaError_t ResidualKernelLauncher<kNbits>::Prepare() {
  const int32_t most = ResidualSharedBytes<kNbits>(false, kMaxResidualDim) + static_cast<int32_t>(kMaxCodedQueryBytes);
  const cudaError_t error =
      cudaFuncSetAttribute(ResidualKernel<kNbits, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(ResidualKernel<kNbits, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}

template <int kNbits>
cudaError_t ResidualKernelLauncher<kNbits>::Launch(const ScorePlan& plan, const ResidualParams& params,
                                                   cudaStream_t stream) {
  const bool fast = plan.query_resident && params.dim % kCodedLaneColumns == 0;
  const auto kernel = fast ? ResidualKernel<kNbits, true> : ResidualKernel<kNbits, false>;
  const auto shared_bytes = static_cast<size_t>(ResidualSharedBytes<kNbits>(plan.query_resident, params.dim));
  return LaunchKernel(kernel, plan.grid(), plan.threads, shared_bytes, stream, params);
}

}  // namespace maxsim::cuda
