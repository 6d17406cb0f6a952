#include "kernels/cuda/score/hopper_wide/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct WideKernelLauncher<ScalarType::kBF16, 3>;
template struct WideKernelLauncher<ScalarType::kBF16, 4>;
template struct WideKernelLauncher<ScalarType::kBF16, 6>;
template struct WideKernelLauncher<ScalarType::kBF16, 8>;

}  // namespace maxsim::cuda::sm90
