// Launching the Hopper kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/score_params.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda::sm90 {

// Lets every kernel use the shared memory that it wants on the current device, and loads its code. Once a device of
// compute capability 9.0.
cudaError_t PrepareScoreKernels();

// Launches the plan's kernel. `maps` describes the documents; may be null for a stream tile. `queries` describes
// params.query_rows, for a deep tile. params.claims and what params.teams points to must be zero, and are again after
// it.
cudaError_t LaunchScore(const ScorePlan& plan, const DocumentMaps* maps, const QueryMap& queries,
                        const ScoreParams& params, cudaStream_t stream);

// The kernels one by one, instantiated in instantiations/. kSteps: of kStepBytes in a row that registers have room for;
// 0: the stream kernel whose query rows lie in shared memory.
template <ScalarType kType, int kSteps>
struct ScoreKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const DocumentMaps& maps, const ScoreParams& params,
                            cudaStream_t stream);
};

template <ScalarType kType, int kSteps>
struct StreamKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const ScoreParams& params, cudaStream_t stream);
};

template <ScalarType kType, ScoreTile kTile>
struct DeepKernelLauncher {
  static cudaError_t Prepare();
  static cudaError_t Launch(const ScorePlan& plan, const DocumentMaps& maps, const QueryMap& queries,
                            const ScoreParams& params, cudaStream_t stream);
};

}  // namespace maxsim::cuda::sm90
