#include "kernels/cuda/sm90/score_launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct ScoreKernelLauncher<ScalarType::kF16, 3>;

}  // namespace maxsim::cuda::sm90
