#include "kernels/cuda/score/hopper_wide/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct ScoreKernelLauncher<ScalarType::kI8, 2>;
template struct ScoreKernelLauncher<ScalarType::kI8, 3>;
template struct ScoreKernelLauncher<ScalarType::kI8, 4>;
template struct ScoreKernelLauncher<ScalarType::kI8, 6>;
template struct ScoreKernelLauncher<ScalarType::kI8, 8>;

}  // namespace maxsim::cuda::sm90
