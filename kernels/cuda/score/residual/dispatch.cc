// Finds the kernel over residual codes that a plan names.
#include "kernels/cuda/score/no_instance.h"
#include "kernels/cuda/score/residual/kernel.h"

namespace maxsim::cuda {

cudaError_t PrepareResidualKernels() {
  cudaError_t error = ResidualKernelLauncher<1>::Prepare();
  if (error == cudaSuccess) error = ResidualKernelLauncher<2>::Prepare();
  if (error == cudaSuccess) error = ResidualKernelLauncher<4>::Prepare();
  if (error == cudaSuccess) error = ResidualKernelLauncher<8>::Prepare();
  return error;
}

cudaError_t LaunchResidualKernel(const ScorePlan& plan, const ResidualParams& params, cudaStream_t stream) {
  ResidualParams all = params;
  all.blocks_per_row_tile = plan.blocks_per_row_tile;
  all.resident = plan.query_resident ? 1 : 0;
  switch (ResidualBits(plan.type)) {
    case 1:
      return ResidualKernelLauncher<1>::Launch(plan, all, stream);
    case 2:
      return ResidualKernelLauncher<2>::Launch(plan, all, stream);
    case 4:
      return ResidualKernelLauncher<4>::Launch(plan, all, stream);
    case 8:
      return ResidualKernelLauncher<8>::Launch(plan, all, stream);
    default:
      return kNoInstance;
  }
}

}  // namespace maxsim::cuda
