#include "kernels/cuda/sm80/score_launcher.cuh"

namespace maxsim::cuda {

template struct ScoreKernelLauncher<ScalarType::kF16, ScoreTile::kRows64, true, false>;
template struct ScoreKernelLauncher<ScalarType::kF16, ScoreTile::kRows64, false, false>;

}  // namespace maxsim::cuda
