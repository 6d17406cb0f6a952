#include "kernels/cuda/score/hopper_deep/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct DeepKernelLauncher<ScalarType::kI8, ScoreTile::kDeep128>;
template struct DeepKernelLauncher<ScalarType::kI8, ScoreTile::kDeep256>;

}  // namespace maxsim::cuda::sm90
