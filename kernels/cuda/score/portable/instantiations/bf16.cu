#include "kernels/cuda/score/portable/launcher.cuh"

namespace maxsim::cuda {

template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows128, false, false>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows128, true, false>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows32, false, false>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows32, false, true>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows32, true, false>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows32, true, true>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows32Narrow, true, false>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows64, false, false>;
template struct PortableKernelLauncher<ScalarType::kBF16, ScoreTile::kRows64, true, false>;

}  // namespace maxsim::cuda
