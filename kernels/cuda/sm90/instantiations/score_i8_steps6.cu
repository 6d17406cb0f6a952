#include "kernels/cuda/sm90/score_launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct ScoreKernelLauncher<ScalarType::kI8, 6>;

}  // namespace maxsim::cuda::sm90
