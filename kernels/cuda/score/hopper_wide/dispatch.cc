// Finds the wide kernel that a plan names.
#include "kernels/cuda/score/hopper_wide/kernel.h"
#include "kernels/cuda/score/no_instance.h"

namespace maxsim::cuda::sm90 {
namespace {

// The functions below call visit(launcher) for the instance of their arguments, and return kNoInstance if there is
// none.
template <ScalarType kType, class Visit>
cudaError_t VisitWideSteps(int num_steps, Visit visit) {
  if constexpr (kType == ScalarType::kI8) {
    if (num_steps <= 2) return visit(WideKernelLauncher<kType, 2>());
  }
  if (num_steps <= 3) return visit(WideKernelLauncher<kType, 3>());
  if (num_steps <= 4) return visit(WideKernelLauncher<kType, 4>());
  if (num_steps <= 6) return visit(WideKernelLauncher<kType, 6>());
  if (num_steps <= 8) return visit(WideKernelLauncher<kType, 8>());
  return kNoInstance;
}

template <class Visit>
cudaError_t VisitWide(ScalarType type, int num_steps, Visit visit) {
  if (type == ScalarType::kF16) return VisitWideSteps<ScalarType::kF16>(num_steps, visit);
  if (type == ScalarType::kBF16) return VisitWideSteps<ScalarType::kBF16>(num_steps, visit);
  if (type == ScalarType::kI8) return VisitWideSteps<ScalarType::kI8>(num_steps, visit);
  return kNoInstance;
}

}  // namespace

cudaError_t PrepareWideKernels() {
  const auto prepare = [](auto launcher) { return launcher.Prepare(); };
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    for (int steps : {2, 3, 4, 6, 8}) {
      const cudaError_t error = VisitWide(type, steps, prepare);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t PrepareWideKernel(const ScorePlan& plan) {
  return VisitWide(plan.type, plan.num_steps, [](auto launcher) { return launcher.Prepare(); });
}

void FillFromPlan(const ScorePlan& plan, WideParams& params) {
  params.half_tiles = plan.num_half_tiles == 0                    ? kNoHalfTiles
                      : plan.num_half_tiles == plan.num_row_tiles ? kAllHalfTiles
                                                                  : kSomeHalfTiles;
}

cudaError_t LaunchWideKernel(const ScorePlan& plan, const DocumentMaps& maps, const WideParams& params,
                             cudaStream_t stream) {
  return VisitWide(plan.type, plan.num_steps,
                   [&](auto launcher) { return launcher.Launch(plan, maps, params, stream); });
}

}  // namespace maxsim::cuda::sm90
