#include "kernels/cuda/score/hopper_wide/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct WideKernelLauncher<ScalarType::kI8, 2>;
template struct WideKernelLauncher<ScalarType::kI8, 3>;
template struct WideKernelLauncher<ScalarType::kI8, 4>;
template struct WideKernelLauncher<ScalarType::kI8, 6>;
template struct WideKernelLauncher<ScalarType::kI8, 8>;

}  // namespace maxsim::cuda::sm90
