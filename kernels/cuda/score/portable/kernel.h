// Launches the portable kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/portable/params.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda {

// Allows every portable kernel up to `shared_bytes` of shared memory on the current device, and loads its code. Must be
// called once per device.
cudaError_t PreparePortableKernels(int shared_bytes);

// Copies the parameters that only the portable kernels have from the plan.
void FillFromPlan(const ScorePlan& plan, PortableParams& params);

// Launches the plan's kernel. FillFromPlan has filled in `params` from the same plan.
cudaError_t LaunchPortableKernel(const ScorePlan& plan, const PortableParams& params, cudaStream_t stream);

// One instance of the kernel. The files in instantiations/ instantiate it.
template <ScalarType kType, ScoreTile kTile, bool kResident, bool kAlign>
struct PortableKernelLauncher {
  static cudaError_t Prepare(int shared_bytes);
  static cudaError_t Launch(const ScorePlan& plan, const PortableParams& params, cudaStream_t stream);
};

}  // namespace maxsim::cuda
