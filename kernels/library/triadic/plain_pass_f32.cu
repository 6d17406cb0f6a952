#include "kernels/library/triadic/plain_pass.cuh"

namespace maxsim::library {

cudaError_t LaunchPlainPassF32(const TriadicParams& params, TriadicMode mode, cudaStream_t stream) {
  switch (mode) {
    case TriadicMode::kOutput:
      return LaunchPlainPass<float, TriadicMode::kOutput>(params, stream);
    case TriadicMode::kKeys:
      return LaunchPlainPass<float, TriadicMode::kKeys>(params, stream);
    default:
      return LaunchPlainPass<float, TriadicMode::kValues>(params, stream);
  }
}

}  // namespace maxsim::library
