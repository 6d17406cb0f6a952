// Launches the deep kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_deep/params.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Allows every deep kernel the shared memory that it needs on the current device, and loads its code. Must be called
// once per device of compute capability 9.0.
cudaError_t PrepareDeepKernels();

// Does what PrepareDeepKernels does, for the plan's kernel alone.
cudaError_t PrepareDeepKernel(const ScorePlan& plan);

// Copies the parameters that only the deep kernels have from the plan.
void FillFromPlan(const ScorePlan& plan, DeepParams& params);

// Launches the plan's kernel. FillFromPlan has filled in `params` from the same plan. `maps` describes the documents,
// and `queries` describes params.query_rows. params.claims must be zero before the launch, and is zero after it.
cudaError_t LaunchDeepKernel(const ScorePlan& plan, const DocumentMaps& maps, const QueryMap& queries,
                             const DeepParams& params, cudaStream_t stream);

// One instance of the kernel. The files in instantiations/ instantiate it.
template <ScalarType kType, ScoreTile kTile>
struct DeepKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const DocumentMaps& maps, const QueryMap& queries,
                            const DeepParams& params, cudaStream_t stream);
};

}  // namespace maxsim::cuda::sm90
