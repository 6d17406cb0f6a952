#include "kernels/cuda/score/hopper_deep/launcher.cuh"

namespace maxsim::cuda::sm90 {

template struct DeepKernelLauncher<ScalarType::kBF16, ScoreTile::kDeep128>;
template struct DeepKernelLauncher<ScalarType::kBF16, ScoreTile::kDeep256>;

}  // namespace maxsim::cuda::sm90
