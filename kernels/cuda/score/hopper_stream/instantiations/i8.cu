#include "kernels/cuda/score/hopper_stream/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct StreamKernelLauncher<ScalarType::kI8, 0>;
template struct StreamKernelLauncher<ScalarType::kI8, 2>;
template struct StreamKernelLauncher<ScalarType::kI8, 4>;
template struct StreamKernelLauncher<ScalarType::kI8, 6>;
template struct StreamKernelLauncher<ScalarType::kI8, 8>;

}  // namespace maxsim::cuda::sm90
