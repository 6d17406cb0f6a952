#include "kernels/library/triadic/plain_pass.cuh"

namespace maxsim::library {

cudaError_t LaunchPlainPassF16(const TriadicParams& params, TriadicMode mode, cudaStream_t stream) {
  if (mode == TriadicMode::kKeys) return LaunchPlainPass<__half, TriadicMode::kKeys>(params, stream);
  return LaunchPlainPass<__half, TriadicMode::kValues>(params, stream);
}

}  // namespace maxsim::library
