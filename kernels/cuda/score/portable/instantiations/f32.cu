#include "kernels/cuda/score/portable/launcher.cuh"

namespace maxsim::cuda {

template struct PortableKernelLauncher<ScalarType::kF32, ScoreTile::kRows32, false, false>;
template struct PortableKernelLauncher<ScalarType::kF32, ScoreTile::kRows32, false, true>;
template struct PortableKernelLauncher<ScalarType::kF32, ScoreTile::kRows32, true, false>;
template struct PortableKernelLauncher<ScalarType::kF32, ScoreTile::kRows32, true, true>;

}  // namespace maxsim::cuda
