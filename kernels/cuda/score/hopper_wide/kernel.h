// Launches the wide kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_wide/params.h"
#include "kernels/plan/score.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Allows every wide kernel the shared memory that it needs on the current device, and loads its code. Must be called
// once per device of compute capability 9.0.
cudaError_t PrepareWideKernels();

// Does what PrepareWideKernels does, for the plan's kernel alone.
cudaError_t PrepareWideKernel(const ScorePlan& plan);

// Copies the parameters that only the wide kernels have from the plan.
void FillFromPlan(const ScorePlan& plan, WideParams& params);

// Launches the plan's kernel. FillFromPlan has filled in `params` from the same plan. `maps` describes the documents.
// params.claims must be zero before the launch, and is zero after it.
cudaError_t LaunchWideKernel(const ScorePlan& plan, const DocumentMaps& maps, const WideParams& params,
                             cudaStream_t stream);

// One instance of the kernel. Its registers have room for query rows of up to kSteps steps of kStepBytes. The files in
// instantiations/ instantiate it.
template <ScalarType kType, int kSteps>
struct WideKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const DocumentMaps& maps, const WideParams& params,
                            cudaStream_t stream);
};

}  // namespace maxsim::cuda::sm90
