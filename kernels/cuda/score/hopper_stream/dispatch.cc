// Finds the stream kernel that a plan names.
#include "kernels/cuda/score/hopper_stream/kernel.h"
#include "kernels/cuda/score/no_instance.h"

namespace maxsim::cuda::sm90 {
namespace {

// The functions below call visit(launcher) for the instance of their arguments, and return kNoInstance if there is
// none.
template <ScalarType kType, class Visit>
cudaError_t VisitStreamSteps(int num_steps, Visit visit) {
  if constexpr (kType == ScalarType::kI8) {
    if (num_steps <= 2) return visit(StreamKernelLauncher<kType, 2>());
  }
  if (num_steps <= 4) return visit(StreamKernelLauncher<kType, 4>());
  if (num_steps <= 6) return visit(StreamKernelLauncher<kType, 6>());
  if (num_steps <= 8) return visit(StreamKernelLauncher<kType, 8>());
  return visit(StreamKernelLauncher<kType, 0>());
}

template <class Visit>
cudaError_t VisitStream(ScalarType type, int num_steps, Visit visit) {
  if (type == ScalarType::kF16) return VisitStreamSteps<ScalarType::kF16>(num_steps, visit);
  if (type == ScalarType::kBF16) return VisitStreamSteps<ScalarType::kBF16>(num_steps, visit);
  if (type == ScalarType::kI8) return VisitStreamSteps<ScalarType::kI8>(num_steps, visit);
  return kNoInstance;
}

}  // namespace

cudaError_t PrepareStreamKernels() {
  const auto prepare = [](auto launcher) { return launcher.Prepare(); };
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    for (int steps : {2, 4, 6, 8, 9}) {
      const cudaError_t error = VisitStream(type, steps, prepare);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

void FillFromPlan(const ScorePlan& plan, StreamParams& params) {
  params.tile_tokens = plan.tile_tokens;
  params.stages = plan.stages;
}

cudaError_t LaunchStreamKernel(const ScorePlan& plan, const StreamParams& params, cudaStream_t stream) {
  return VisitStream(plan.type, plan.num_steps, [&](auto launcher) { return launcher.Launch(plan, params, stream); });
}

}  // namespace maxsim::cuda::sm90
