// Launching the deep kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_deep/params.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Lets every deep kernel use the shared memory that it wants on the current device, and loads its code. To be called
// once a device of compute capability 9.0.
cudaError_t PrepareDeepKernels();

// Copies from the plan what only the deep kernels are told of it.
void FillFromPlan(const ScorePlan& plan, DeepParams& params);

// Launches the plan's kernel. FillFromPlan has filled in `params` from the same plan. `maps` describes the documents,
// and `queries` describes params.query_rows. params.claims must be zero, and is again after it.
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
