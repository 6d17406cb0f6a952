// Gradients of nearest distances. The gradient of a point x depends on one y. For gradients of y, the points x are
// sorted by their nearest y, and a warp adds up the points x of one y in a fixed order, without atomic additions.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/nearest/nearest_device.cuh"
#include "kernels/library/nearest/nearest_kernels.h"

namespace maxsim::library {
namespace {

constexpr uint32_t kElementThreads = 256;
constexpr int kRowThreads = 128;
constexpr int kRowWarps = kRowThreads / 32;

// Returns the row of y that is nearest to a row of x; -1 if the row of x adds nothing to any gradient.
__device__ __forceinline__ int64_t MatchOf(const NearestGradientParams& params, int64_t row) {
  const int32_t match = params.argmin[row];
  if (match < 0 || params.distance_gradients[row] == 0) return -1;
  const uint32_t set = static_cast<uint32_t>(row) / static_cast<uint32_t>(params.call.max_x);  // rows are below 2^31
  return set * params.call.max_y + match;
}

// A thread block computes `width` columns of kElementThreads / width rows.
template <class T>
__global__ void __launch_bounds__(kElementThreads)
    XGradientsKernel(const __grid_constant__ NearestGradientParams params, uint32_t width, int64_t num_x) {
  const int32_t dim = params.call.dim;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kElementThreads / width) + threadIdx.x / width;
  const auto column = static_cast<int32_t>(blockIdx.y * width + threadIdx.x % width);
  if (threadIdx.x / width >= kElementThreads / width || row >= num_x || column >= dim) return;
  const int64_t match = MatchOf(params, row);
  float gradient = 0;
  if (match >= 0) {
    const float x = Widen(static_cast<const T*>(params.call.x)[row * dim + column]);
    const float y = Widen(static_cast<const T*>(params.call.y)[match * dim + column]);
    gradient = __fmul_rn(2 * params.distance_gradients[row], __fsub_rn(x, y));
  }
  static_cast<T*>(params.x_gradients)[row * dim + column] = Narrow<T>(gradient);
}

// Writes the keys and entries for SortMatches. The key of a row of x is MatchOf, or num_y instead of -1. The entry is
// the number of the row of x.
__global__ void __launch_bounds__(kElementThreads)
    NearestKeysKernel(const __grid_constant__ NearestGradientParams params, int64_t num_x, int64_t num_y) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (row >= num_x) return;
  const int64_t match = MatchOf(params, row);
  params.matches.keys[row] = static_cast<uint32_t>(match >= 0 ? match : num_y);
  params.matches.entries[row] = static_cast<uint32_t>(row);
}

// A warp computes the gradient of a row of y with kDim columns. The rows of x that match it are dealt to the lanes in
// turn, and the lanes' sums are added in a fixed tree.
template <class T, int kDim>
__global__ void __launch_bounds__(kRowThreads)
    SmallYGradientsKernel(const __grid_constant__ NearestGradientParams params, int64_t num_y) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / 32;
  if (row >= num_y) return;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t end = params.matches.row_end[row];
  float y[kDim];
  float sum[kDim];
#pragma unroll
  for (int column = 0; column < kDim; ++column) {
    y[column] = Widen(static_cast<const T*>(params.call.y)[row * kDim + column]);
    sum[column] = 0;
  }
  for (uint32_t idx = params.matches.row_begin[row] + lane; idx < end; idx += 32) {
    const int64_t entry = params.matches.entries[idx];
    const float factor = 2 * params.distance_gradients[entry];
#pragma unroll
    for (int column = 0; column < kDim; ++column) {
      const float x = Widen(static_cast<const T*>(params.call.x)[entry * kDim + column]);
      sum[column] = __fmaf_rn(factor, __fsub_rn(y[column], x), sum[column]);
    }
  }
#pragma unroll
  for (int column = 0; column < kDim; ++column) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum[column] += __shfl_xor_sync(0xffffffffu, sum[column], offset);
    if (lane == 0) static_cast<T*>(params.y_gradients)[row * kDim + column] = Narrow<T>(sum[column]);
  }
}

// A warp computes 128 columns of the gradient of a row of y: it adds the rows of x that match this row, in ascending
// order.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    WideYGradientsKernel(const __grid_constant__ NearestGradientParams params, int64_t num_y) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / 32;
  if (row >= num_y) return;
  const int32_t dim = params.call.dim;
  const int32_t column = blockIdx.y * kBackwardColumns + (threadIdx.x % 32) * 4;
  const uint32_t end = params.matches.row_end[row];
  const Columns y = ReadColumns<T>(params.call.y, row, dim, column, params.aligned);
  Columns sum;
#pragma unroll 4
  for (uint32_t idx = params.matches.row_begin[row]; idx < end; ++idx) {
    const int64_t entry = params.matches.entries[idx];
    Columns difference = y;
    difference.Add(-1.0f, ReadColumns<T>(params.call.x, entry, dim, column, params.aligned));
    sum.Add(2 * params.distance_gradients[entry], difference);
  }
  WriteColumns<T>(params.y_gradients, row, dim, column, params.aligned, sum);
}

template <class T>
cudaError_t LaunchYRows(const NearestGradientParams& params, int64_t num_y, cudaStream_t stream) {
  const auto num_blocks = static_cast<unsigned>((num_y + kRowWarps - 1) / kRowWarps);
  const dim3 grid(num_blocks);
  const dim3 threads(kRowThreads);
  switch (params.call.dim) {
    case 1:
      return cuda::LaunchKernel(SmallYGradientsKernel<T, 1>, grid, threads, 0, stream, params, num_y);
    case 2:
      return cuda::LaunchKernel(SmallYGradientsKernel<T, 2>, grid, threads, 0, stream, params, num_y);
    case 3:
      return cuda::LaunchKernel(SmallYGradientsKernel<T, 3>, grid, threads, 0, stream, params, num_y);
    case 4:
      return cuda::LaunchKernel(SmallYGradientsKernel<T, 4>, grid, threads, 0, stream, params, num_y);
    default:
      break;
  }
  const auto num_parts = static_cast<unsigned>((params.call.dim + kBackwardColumns - 1) / kBackwardColumns);
  return cuda::LaunchKernel(WideYGradientsKernel<T>, dim3(num_blocks, num_parts), threads, 0, stream, params, num_y);
}

}  // namespace

cudaError_t LaunchXGradients(const NearestGradientParams& params, cudaStream_t stream) {
  const int64_t num_x = params.call.num_sets * params.call.max_x;
  if (num_x == 0) return cudaSuccess;
  const auto dim = static_cast<uint32_t>(params.call.dim);
  const uint32_t width = dim < kElementThreads ? dim : kElementThreads;
  const int64_t rows = kElementThreads / width;
  const dim3 grid(static_cast<unsigned>((num_x + rows - 1) / rows), (dim + width - 1) / width);
  const dim3 threads(kElementThreads);
  return WithFloatType(params.call.type, [&](auto zero) {
    return cuda::LaunchKernel(XGradientsKernel<decltype(zero)>, grid, threads, 0, stream, params, width, num_x);
  });
}

cudaError_t LaunchYGradients(NearestGradientParams params, cudaStream_t stream) {
  const int64_t num_x = params.call.num_sets * params.call.max_x;
  const int64_t num_y = params.call.num_sets * params.call.max_y;
  if (num_y == 0) return cudaSuccess;
  if (num_x > 0) {
    const auto num_blocks = static_cast<unsigned>((num_x + kElementThreads - 1) / kElementThreads);
    const cudaError_t error =
        cuda::LaunchKernel(NearestKeysKernel, dim3(num_blocks), dim3(kElementThreads), 0, stream, params, num_x, num_y);
    if (error != cudaSuccess) return error;
  }
  if (const cudaError_t error = SortMatches(&params.matches, num_x, num_y, stream); error != cudaSuccess) return error;
  return WithFloatType(params.call.type, [&](auto zero) { return LaunchYRows<decltype(zero)>(params, num_y, stream); });
}

}  // namespace maxsim::library
