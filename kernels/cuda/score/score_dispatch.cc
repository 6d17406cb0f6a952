// From a plan to the kernel instance that it names.
#include "kernels/cuda/score/score_launch.h"

namespace maxsim::cuda {
namespace {

// What is returned where there is no such instance; CUDA itself returns other errors for kernels it cannot run.
constexpr cudaError_t kNoInstance = cudaErrorInvalidSymbol;

// Calls visit(launcher) for the instance of the arguments; kNoInstance when there is none.
template <ScalarType kType, class Visit>
cudaError_t VisitTensorCores(ScoreTile tile, bool resident, bool align, Visit visit) {
  using enum ScoreTile;
  if (align) {
    return resident ? visit(ScoreKernelLauncher<kType, kRows32, true, true>())
                    : visit(ScoreKernelLauncher<kType, kRows32, false, true>());
  }
  switch (tile) {
    case kRows32Narrow:
      if (!resident) break;
      return visit(ScoreKernelLauncher<kType, kRows32Narrow, true, false>());
    case kRows32:
      return resident ? visit(ScoreKernelLauncher<kType, kRows32, true, false>())
                      : visit(ScoreKernelLauncher<kType, kRows32, false, false>());
    case kRows64:
      return resident ? visit(ScoreKernelLauncher<kType, kRows64, true, false>())
                      : visit(ScoreKernelLauncher<kType, kRows64, false, false>());
    case kRows128:
      return resident ? visit(ScoreKernelLauncher<kType, kRows128, true, false>())
                      : visit(ScoreKernelLauncher<kType, kRows128, false, false>());
    case kWide128:
    case kWide256:
    case kStream32:
    case kDeep128:
    case kDeep256:
      break;
  }
  return kNoInstance;
}

template <class Visit>
cudaError_t VisitF32(ScoreTile tile, bool resident, bool align, Visit visit) {
  constexpr ScoreTile kTile = ScoreTile::kRows32;
  if (tile != kTile) return kNoInstance;
  if (align) {
    return resident ? visit(ScoreKernelLauncher<ScalarType::kF32, kTile, true, true>())
                    : visit(ScoreKernelLauncher<ScalarType::kF32, kTile, false, true>());
  }
  return resident ? visit(ScoreKernelLauncher<ScalarType::kF32, kTile, true, false>())
                  : visit(ScoreKernelLauncher<ScalarType::kF32, kTile, false, false>());
}

template <class Visit>
cudaError_t VisitKernel(ScalarType type, ScoreTile tile, bool resident, bool align, Visit visit) {
  switch (type) {
    case ScalarType::kF16:
      return VisitTensorCores<ScalarType::kF16>(tile, resident, align, visit);
    case ScalarType::kBF16:
      return VisitTensorCores<ScalarType::kBF16>(tile, resident, align, visit);
    case ScalarType::kF32:
      return VisitF32(tile, resident, align, visit);
    case ScalarType::kI8:
      return VisitTensorCores<ScalarType::kI8>(tile, resident, align, visit);
  }
  return kNoInstance;
}

}  // namespace

cudaError_t PrepareScoreKernels(int shared_bytes) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8}) {
    for (ScoreTile tile : {ScoreTile::kRows32Narrow, ScoreTile::kRows32, ScoreTile::kRows64, ScoreTile::kRows128}) {
      for (int variant = 0; variant < 4; ++variant) {
        const bool resident = variant % 2 == 1;
        const bool align = variant / 2 == 1;
        if (align && tile != ScoreTile::kRows32) continue;
        const cudaError_t error =
            VisitKernel(type, tile, resident, align, [&](auto launcher) { return launcher.Prepare(shared_bytes); });
        // Not every combination has a kernel: wide F32 tiles, a streamed narrow one.
        if (error != cudaSuccess && error != kNoInstance) return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchScore(const ScorePlan& plan, const ScoreParams& params, cudaStream_t stream) {
  return VisitKernel(plan.type, plan.tile, plan.query_resident, plan.align,
                     [&](auto launcher) { return launcher.Launch(plan, params, stream); });
}

void FillFromPlan(const ScorePlan& plan, ScoreParams& params) {
  params.num_row_tiles = static_cast<int32_t>(plan.num_row_tiles);
  params.row_tiles_at_once = plan.row_tiles_at_once;
  params.blocks_per_row_tile = plan.blocks_per_row_tile;
  params.row_bytes = plan.row_bytes;
  params.num_steps = plan.num_steps;
  params.num_chunks = plan.num_chunks;
  params.chunks_of_chain = plan.chunks_of_chain;
  params.stages = plan.stages;
  params.tile_tokens = plan.tile_tokens;
  params.half_tiles = plan.num_half_tiles == 0                    ? kNoHalfTiles
                      : plan.num_half_tiles == plan.num_row_tiles ? kAllHalfTiles
                                                                  : kSomeHalfTiles;
  params.query_resident = plan.query_resident ? 1 : 0;
}

}  // namespace maxsim::cuda
