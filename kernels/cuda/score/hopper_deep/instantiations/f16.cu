#include "kernels/cuda/score/hopper_deep/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct DeepKernelLauncher<ScalarType::kF16, ScoreTile::kDeep128>;
template struct DeepKernelLauncher<ScalarType::kF16, ScoreTile::kDeep256>;

}  // namespace maxsim::cuda::sm90
