// Launching the scoring kernels that a plan names. The functions return CUDA's own error; callers wrap it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/score/score_params.h"
#include "kernels/plan/score.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda {

// Lets every scoring kernel use up to `shared_bytes` of shared memory on the current device, and loads its code. Once a
// device.
cudaError_t PrepareScoreKernels(int shared_bytes);

// Loads the code of LaunchAddPartials, so that the first call that needs it does not. `overlap` stays true only if it
// orders itself (FindGridOrder): then it may start while the kernel before it drains.
cudaError_t PrepareAddPartials(bool& overlap);

// Launches the plan's kernel. params' grid and tiling fields must be the plan's (see FillFromPlan).
cudaError_t LaunchScore(const ScorePlan& plan, const ScoreParams& params, cudaStream_t stream);

// Copies from the plan what the kernel needs of it.
void FillFromPlan(const ScorePlan& plan, ScoreParams& params);

// Adds partial sums in the order of query tiles: scores[scores_offset + pass_first + i] = sum over b of
// partials[partials_offset + b * query_tile_stride + i], for i < min(pass_count, num_candidates - pass_first), of each
// of `num_sums` queries; of a query of joined lists, in place of + i the place of candidate i in the union. Device
// memory. `overlap` is what PrepareAddPartials has left.
struct PartialSumsCall {
  const PartialSums* sums;
  int num_sums;
  const float* partials;
  const uint32_t* ordinals;
  const JoinWord* words;
};
cudaError_t LaunchAddPartials(const PartialSumsCall& blocks, int64_t pass_first, int64_t pass_count, float* scores,
                              bool overlap, cudaStream_t stream);

// The kernels one by one, instantiated in portable/instantiations/.
template <ScalarType kType, ScoreTile kTile, bool kResident, bool kAlign>
struct ScoreKernelLauncher {
  static cudaError_t Prepare(int shared_bytes);
  static cudaError_t Launch(const ScorePlan& plan, const ScoreParams& params, cudaStream_t stream);
};

}  // namespace maxsim::cuda
