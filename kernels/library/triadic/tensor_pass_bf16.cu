#include "kernels/library/triadic/tensor_pass.cuh"

namespace maxsim::library {

cudaError_t LaunchTensorPassBF16(const TriadicParams& params, TriadicMode mode, cudaStream_t stream) {
  switch (mode) {
    case TriadicMode::kOutput:
      return LaunchTensorPass<__nv_bfloat16, TriadicMode::kOutput>(params, stream);
    case TriadicMode::kKeys:
      return LaunchTensorPass<__nv_bfloat16, TriadicMode::kKeys>(params, stream);
    default:
      return LaunchTensorPass<__nv_bfloat16, TriadicMode::kValues>(params, stream);
  }
}

}  // namespace maxsim::library
