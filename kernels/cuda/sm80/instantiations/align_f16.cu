#include "kernels/cuda/sm80/score_launcher.cuh"

namespace maxsim::cuda {

template struct ScoreKernelLauncher<ScalarType::kF16, ScoreTile::kRows32, true, true>;
template struct ScoreKernelLauncher<ScalarType::kF16, ScoreTile::kRows32, false, true>;

}  // namespace maxsim::cuda
