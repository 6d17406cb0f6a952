// Replaces, in a build without a CUDA compiler, the functions of kernels/maxsim.h that kernels/cuda defines.
#include "kernels/maxsim.h"

namespace maxsim {
namespace {

absl::Status WithoutCuda() {
  return absl::UnimplementedError("this build has no CUDA backend: no nvcc was found when it was configured");
}

}  // namespace

absl::StatusOr<int> CountCudaDevices() { return WithoutCuda(); }

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions&) { return WithoutCuda(); }

bool BuiltWithCuda() { return false; }

}  // namespace maxsim
