// Finds the deep kernel that a plan names.
#include "kernels/cuda/score/hopper_deep/kernel.h"
#include "kernels/cuda/score/no_instance.h"

namespace maxsim::cuda::sm90 {
namespace {

// The functions below call visit(launcher) for the instance of their arguments, and return kNoInstance if there is
// none.
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

cudaError_t PrepareDeepKernels() {
  const auto prepare = [](auto launcher) { return launcher.Prepare(); };
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    for (ScoreTile tile : {ScoreTile::kDeep128, ScoreTile::kDeep256}) {
      const cudaError_t error = VisitDeep(type, tile, prepare);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t PrepareDeepKernel(const ScorePlan& plan) {
  return VisitDeep(plan.type, plan.tile, [](auto launcher) { return launcher.Prepare(); });
}

void FillFromPlan(const ScorePlan& plan, DeepParams& params) {
  params.num_chunks = plan.num_chunks;
  params.stages = plan.stages;
  params.query_resident = plan.query_resident ? 1 : 0;
}

cudaError_t LaunchDeepKernel(const ScorePlan& plan, const DocumentMaps& maps, const QueryMap& queries,
                             const DeepParams& params, cudaStream_t stream) {
  return VisitDeep(plan.type, plan.tile,
                   [&](auto launcher) { return launcher.Launch(plan, maps, queries, params, stream); });
}

}  // namespace maxsim::cuda::sm90
