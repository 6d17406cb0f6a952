// Computes delta = <output, gradient of the output> of every query, which the gradients of all its logits subtract.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/triadic/triadic_device.cuh"

namespace maxsim::library {
namespace {

constexpr int kDeltaThreads = 128;

// One warp computes the delta of one query. Its lanes take columns in turn, and their sums are added in a fixed tree.
template <class T>
__global__ void __launch_bounds__(kDeltaThreads)
    DeltasKernel(const T* output, const T* output_gradients, int32_t dim, int64_t num_rows, float* deltas) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kDeltaThreads / 32) + threadIdx.x / 32;
  if (row >= num_rows) return;
  float sum = 0;
  for (int32_t column = threadIdx.x % 32; column < dim; column += 32) {
    sum = __fmaf_rn(Widen(output[row * dim + column]), Widen(output_gradients[row * dim + column]), sum);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) deltas[row] = sum;
}

template <class T>
cudaError_t LaunchDeltasOf(const void* output, const void* output_gradients, int32_t dim, int64_t num_rows,
                           float* deltas, cudaStream_t stream) {
  constexpr int64_t kRows = kDeltaThreads / 32;
  const auto num_blocks = static_cast<unsigned>((num_rows + kRows - 1) / kRows);
  return cuda::LaunchKernel(DeltasKernel<T>, dim3(num_blocks), dim3(kDeltaThreads), 0, stream,
                            static_cast<const T*>(output), static_cast<const T*>(output_gradients), dim, num_rows,
                            deltas);
}

}  // namespace

cudaError_t LaunchTriadicDeltas(const void* output, const void* output_gradients, ScalarType type, int32_t dim,
                                int64_t num_rows, float* deltas, cudaStream_t stream) {
  if (num_rows == 0) return cudaSuccess;
  switch (type) {
    case ScalarType::kF32:
      return LaunchDeltasOf<float>(output, output_gradients, dim, num_rows, deltas, stream);
    case ScalarType::kF16:
      return LaunchDeltasOf<__half>(output, output_gradients, dim, num_rows, deltas, stream);
    default:
      return LaunchDeltasOf<__nv_bfloat16>(output, output_gradients, dim, num_rows, deltas, stream);
  }
}

}  // namespace maxsim::library
