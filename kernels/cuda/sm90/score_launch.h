// Launching the Hopper kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/document_maps.h"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// Lets every kernel use the shared memory that it wants on the current device, and loads its code. Once a device of
// compute capability 9.0.
cudaError_t PrepareScoreKernels();

// Launches the plan's kernel. `maps` describes the documents; may be null for a stream tile. params.claims must be
// zero, and is again after it. Scoring of quantised documents may begin `early`, when the kernel before it in the
// stream, which quantises the queries, is still at work; it must be the first to use params.claims and outputs after
// that one.
cudaError_t LaunchScore(const ScorePlan& plan, const DocumentMaps* maps, const ScoreParams& params, bool early,
                        cudaStream_t stream);

// The kernels one by one, instantiated in instantiations/. kSteps: of kStepBytes in a row.
template <ScalarType kType, int kSteps>
struct ScoreKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const DocumentMaps& maps, const ScoreParams& params, bool early,
                            cudaStream_t stream);
};

template <ScalarType kType, int kSteps>
struct StreamKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const ScoreParams& params, bool early, cudaStream_t stream);
};

}  // namespace maxsim::cuda::sm90
