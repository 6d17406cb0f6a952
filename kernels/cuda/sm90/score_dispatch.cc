#include "kernels/cuda/sm90/score_launch.h"

namespace maxsim::cuda::sm90 {
namespace {

// What is returned where there is no such instance; CUDA itself returns other errors for kernels it cannot run.
constexpr cudaError_t kNoInstance = cudaErrorInvalidSymbol;

// Visitors of the instances: visit(launcher).
template <ScalarType kType, class Visit>
cudaError_t VisitWide(int num_steps, Visit visit) {
  if (num_steps <= 4) return visit(ScoreKernelLauncher<kType, 4>());
  if (num_steps <= 8) return visit(ScoreKernelLauncher<kType, 8>());
  return kNoInstance;
}

template <ScalarType kType, class Visit>
cudaError_t VisitStream(int num_steps, Visit visit) {
  if constexpr (kType == ScalarType::kI8) {
    if (num_steps <= 2) return visit(StreamKernelLauncher<kType, 2>());
  }
  if (num_steps <= 4) return visit(StreamKernelLauncher<kType, 4>());
  if (num_steps <= 6) return visit(StreamKernelLauncher<kType, 6>());
  if (num_steps <= 8) return visit(StreamKernelLauncher<kType, 8>());
  return kNoInstance;
}

template <ScalarType kType, class VisitWideLauncher, class VisitStreamLauncher>
cudaError_t VisitTile(ScoreTile tile, int num_steps, VisitWideLauncher wide, VisitStreamLauncher stream) {
  if (IsWide(tile)) return VisitWide<kType>(num_steps, wide);
  if (tile == ScoreTile::kStream32) return VisitStream<kType>(num_steps, stream);
  return kNoInstance;
}

template <class VisitWideLauncher, class VisitStreamLauncher>
cudaError_t VisitKernel(ScalarType type, ScoreTile tile, int num_steps, VisitWideLauncher wide,
                        VisitStreamLauncher stream) {
  if (type == ScalarType::kF16) return VisitTile<ScalarType::kF16>(tile, num_steps, wide, stream);
  if (type == ScalarType::kBF16) return VisitTile<ScalarType::kBF16>(tile, num_steps, wide, stream);
  if (type == ScalarType::kI8) return VisitTile<ScalarType::kI8>(tile, num_steps, wide, stream);
  return kNoInstance;
}

}  // namespace

cudaError_t PrepareScoreKernels() {
  const auto prepare = [](auto launcher) { return launcher.Prepare(); };
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    for (ScoreTile tile : {ScoreTile::kWide256, ScoreTile::kStream32}) {
      for (int steps : {2, 4, 6, 8}) {
        const cudaError_t error = VisitKernel(type, tile, steps, prepare, prepare);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchScore(const ScorePlan& plan, const DocumentMaps* maps, const ScoreParams& params, bool early,
                        cudaStream_t stream) {
  return VisitKernel(
      plan.type, plan.tile, plan.num_steps,
      [&](auto launcher) { return launcher.Launch(plan, *maps, params, early, stream); },
      [&](auto launcher) { return launcher.Launch(plan, params, early, stream); });
}

}  // namespace maxsim::cuda::sm90
