#include "kernels/library/triadic/tensor_pass.cuh"

namespace maxsim::library {

cudaError_t LaunchTensorPassF16(const TriadicParams& params, cudaStream_t stream) {
  return LaunchTensorPass<__half, TriadicMode::kOutput>(params, stream);
}

}  // namespace maxsim::library
