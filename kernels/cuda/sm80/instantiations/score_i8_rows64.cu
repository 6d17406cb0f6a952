#include "kernels/cuda/sm80/score_launcher.cuh"

namespace maxsim::cuda {

template struct ScoreKernelLauncher<ScalarType::kI8, ScoreTile::kRows64, true, false>;
template struct ScoreKernelLauncher<ScalarType::kI8, ScoreTile::kRows64, false, false>;

}  // namespace maxsim::cuda
