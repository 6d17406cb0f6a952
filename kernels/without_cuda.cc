// Stands in for kernels/cuda in a build without a CUDA compiler.
#include "kernels/maxsim.h"

namespace maxsim {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions&) {
  return absl::UnimplementedError("this build has no CUDA backend: no nvcc was found when it was configured");
}

bool BuiltWithCuda() { return false; }

}  // namespace maxsim
