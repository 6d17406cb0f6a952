#include "kernels/cuda/score/hopper_stream/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct StreamKernelLauncher<ScalarType::kF16, 0>;
template struct StreamKernelLauncher<ScalarType::kF16, 4>;
template struct StreamKernelLauncher<ScalarType::kF16, 6>;
template struct StreamKernelLauncher<ScalarType::kF16, 8>;

}  // namespace maxsim::cuda::sm90
