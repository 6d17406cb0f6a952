// Launches the kernels over residual codes. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/residual/params.h"
#include "kernels/plan/score.h"

namespace maxsim::cuda {

// Lets every kernel use the shared memory that it needs on the current device, and loads its code. Must be called once
// per device.
cudaError_t PrepareResidualKernels();

// Launches the plan's kernel, for scores or for matches. The caller sets all members of `params` except
// blocks_per_row_tile and resident, which come from the plan.
cudaError_t LaunchResidualKernel(const ScorePlan& plan, const ResidualParams& params, cudaStream_t stream);

// The kernels for one number of bits per code. The files in instantiations/ instantiate it.
template <int kNbits>
struct ResidualKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const ResidualParams& params, cudaStream_t stream);
};

}  // namespace maxsim::cuda
