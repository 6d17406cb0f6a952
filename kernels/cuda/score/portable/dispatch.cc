// Finds the portable kernel that a plan names.
#include "kernels/cuda/score/no_instance.h"
#include "kernels/cuda/score/portable/kernel.h"

namespace maxsim::cuda {
namespace {

// The functions below call visit(launcher) for the instance of their arguments, and return kNoInstance if there is
// none.
template <ScalarType kType, class Visit>
cudaError_t VisitPortableTensorCores(ScoreTile tile, bool resident, bool align, Visit visit) {
  using enum ScoreTile;
  if (align) {
    return resident ? visit(PortableKernelLauncher<kType, kRows32, true, true>())
                    : visit(PortableKernelLauncher<kType, kRows32, false, true>());
  }
  switch (tile) {
    case kRows32Narrow:
      if (!resident) break;
      return visit(PortableKernelLauncher<kType, kRows32Narrow, true, false>());
    case kRows32:
      return resident ? visit(PortableKernelLauncher<kType, kRows32, true, false>())
                      : visit(PortableKernelLauncher<kType, kRows32, false, false>());
    case kRows64:
      return resident ? visit(PortableKernelLauncher<kType, kRows64, true, false>())
                      : visit(PortableKernelLauncher<kType, kRows64, false, false>());
    case kRows128:
      return resident ? visit(PortableKernelLauncher<kType, kRows128, true, false>())
                      : visit(PortableKernelLauncher<kType, kRows128, false, false>());
    case kWide128:
    case kWide256:
    case kStream32:
    case kDeep128:
    case kDeep256:
    case kResidual32:
      break;
  }
  return kNoInstance;
}

template <class Visit>
cudaError_t VisitPortableF32(ScoreTile tile, bool resident, bool align, Visit visit) {
  constexpr ScoreTile kTile = ScoreTile::kRows32;
  if (tile != kTile) return kNoInstance;
  if (align) {
    return resident ? visit(PortableKernelLauncher<ScalarType::kF32, kTile, true, true>())
                    : visit(PortableKernelLauncher<ScalarType::kF32, kTile, false, true>());
  }
  return resident ? visit(PortableKernelLauncher<ScalarType::kF32, kTile, true, false>())
                  : visit(PortableKernelLauncher<ScalarType::kF32, kTile, false, false>());
}

template <class Visit>
cudaError_t VisitPortable(ScalarType type, ScoreTile tile, bool resident, bool align, Visit visit) {
  switch (type) {
    case ScalarType::kF16:
      return VisitPortableTensorCores<ScalarType::kF16>(tile, resident, align, visit);
    case ScalarType::kBF16:
      return VisitPortableTensorCores<ScalarType::kBF16>(tile, resident, align, visit);
    case ScalarType::kF32:
      return VisitPortableF32(tile, resident, align, visit);
    case ScalarType::kI8:
      return VisitPortableTensorCores<ScalarType::kI8>(tile, resident, align, visit);
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      break;  // score/residual has the kernels for residual codes
  }
  return kNoInstance;
}

}  // namespace

cudaError_t PreparePortableKernels(int shared_bytes) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8}) {
    for (ScoreTile tile : {ScoreTile::kRows32Narrow, ScoreTile::kRows32, ScoreTile::kRows64, ScoreTile::kRows128}) {
      for (int variant = 0; variant < 4; ++variant) {
        const bool resident = variant % 2 == 1;
        const bool align = variant / 2 == 1;
        if (align && tile != ScoreTile::kRows32) continue;
        const cudaError_t error =
            VisitPortable(type, tile, resident, align, [&](auto launcher) { return launcher.Prepare(shared_bytes); });
        // kNoInstance is no error here: F32 has kernels for kRows32 only, and kRows32Narrow has none that streams the
        // query.
        if (error != cudaSuccess && error != kNoInstance) return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchPortableKernel(const ScorePlan& plan, const PortableParams& params, cudaStream_t stream) {
  return VisitPortable(plan.type, plan.tile, plan.query_resident, plan.align,
                       [&](auto launcher) { return launcher.Launch(plan, params, stream); });
}

void FillFromPlan(const ScorePlan& plan, PortableParams& params) {
  params.row_tiles_at_once = plan.row_tiles_at_once;
  params.blocks_per_row_tile = plan.blocks_per_row_tile;
  params.num_chunks = plan.num_chunks;
  params.chunks_of_chain = plan.chunks_of_chain;
  params.stages = plan.stages;
}

}  // namespace maxsim::cuda
