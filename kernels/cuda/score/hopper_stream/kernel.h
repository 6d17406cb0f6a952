// Launches the stream kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/plan/score.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Allows every stream kernel the shared memory that it needs on the current device, and loads its code. Must be called
// once per device of compute capability 9.0.
cudaError_t PrepareStreamKernels();

// Copies the parameters that only the stream kernels have from the plan.
void FillFromPlan(const ScorePlan& plan, StreamParams& params);

// Launches the plan's kernel. FillFromPlan has filled in `params` from the same plan. params.claims and the memory that
// params.teams points to must be zero before the launch, and are zero after it.
cudaError_t LaunchStreamKernel(const ScorePlan& plan, const StreamParams& params, cudaStream_t stream);

// One instance of the kernel. Its registers have room for query rows of up to kSteps steps of kStepBytes. If kSteps is
// 0, its query rows lie in shared memory. The files in instantiations/ instantiate it.
template <ScalarType kType, int kSteps>
struct StreamKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const StreamParams& params, cudaStream_t stream);
};

}  // namespace maxsim::cuda::sm90
