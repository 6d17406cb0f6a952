#include "kernels/cuda/sm80/score_launcher.cuh"

namespace maxsim::cuda {

template struct ScoreKernelLauncher<ScalarType::kI8, ScoreTile::kRows32, true, true>;
template struct ScoreKernelLauncher<ScalarType::kI8, ScoreTile::kRows32, false, true>;

}  // namespace maxsim::cuda
