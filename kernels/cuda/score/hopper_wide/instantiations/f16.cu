#include "kernels/cuda/score/hopper_wide/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct WideKernelLauncher<ScalarType::kF16, 3>;
template struct WideKernelLauncher<ScalarType::kF16, 4>;
template struct WideKernelLauncher<ScalarType::kF16, 6>;
template struct WideKernelLauncher<ScalarType::kF16, 8>;

}  // namespace maxsim::cuda::sm90
