#include "kernels/cuda/score/hopper_common/launch.h"

namespace maxsim::cuda::sm90 {
namespace {

// What is returned where there is no such instance; CUDA itself returns other errors for kernels it cannot run.
constexpr cudaError_t kNoInstance = cudaErrorInvalidSymbol;

// Visitors of the instances: visit(launcher).
template <ScalarType kType, class Visit>
cudaError_t VisitWide(int num_steps, Visit visit) {
  if constexpr (kType == ScalarType::kI8) {
    if (num_steps <= 2) return visit(ScoreKernelLauncher<kType, 2>());
  }
  if (num_steps <= 3) return visit(ScoreKernelLauncher<kType, 3>());
  if (num_steps <= 4) return visit(ScoreKernelLauncher<kType, 4>());
  if (num_steps <= 6) return visit(ScoreKernelLauncher<kType, 6>());
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
  return visit(StreamKernelLauncher<kType, 0>());
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

template <class Visit>
cudaError_t VisitDeep(ScalarType type, ScoreTile tile, Visit visit) {
  using enum ScalarType;
  using enum ScoreTile;
  if (type == kF16 && tile == kDeep128) return visit(DeepKernelLauncher<kF16, kDeep128>());
  if (type == kF16 && tile == kDeep256) return visit(DeepKernelLauncher<kF16, kDeep256>());
  if (type == kBF16 && tile == kDeep128) return visit(DeepKernelLauncher<kBF16, kDeep128>());
  if (type == kBF16 && tile == kDeep256) return visit(DeepKernelLauncher<kBF16, kDeep256>());
  if (type == kI8 && tile == kDeep128) return visit(DeepKernelLauncher<kI8, kDeep128>());
  if (type == kI8 && tile == kDeep256) return visit(DeepKernelLauncher<kI8, kDeep256>());
  return kNoInstance;
}

}  // namespace

cudaError_t PrepareScoreKernels() {
  const auto prepare = [](auto launcher) { return launcher.Prepare(); };
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    for (ScoreTile tile : {ScoreTile::kWide256, ScoreTile::kStream32}) {
      for (int steps : {2, 3, 4, 6, 8, 9}) {
        const cudaError_t error = VisitKernel(type, tile, steps, prepare, prepare);
        if (error != cudaSuccess && error != kNoInstance) return error;
      }
    }
    for (ScoreTile tile : {ScoreTile::kDeep128, ScoreTile::kDeep256}) {
      const cudaError_t error = VisitDeep(type, tile, prepare);
      if (error != cudaSuccess && error != kNoInstance) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchScore(const ScorePlan& plan, const DocumentMaps* maps, const QueryMap& queries,
                        const ScoreParams& params, cudaStream_t stream) {
  if (IsDeep(plan.tile)) {
    return VisitDeep(plan.type, plan.tile,
                     [&](auto launcher) { return launcher.Launch(plan, *maps, queries, params, stream); });
  }
  return VisitKernel(
      plan.type, plan.tile, plan.num_steps, [&](auto launcher) { return launcher.Launch(plan, *maps, params, stream); },
      [&](auto launcher) { return launcher.Launch(plan, params, stream); });
}

}  // namespace maxsim::cuda::sm90
