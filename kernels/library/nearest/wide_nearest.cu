// Nearest points of many columns. SumPairs computes the distances of tiles of 128 points x by 64 points y. Each thread
// keeps the smallest distance, with its index, for each of its points x.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/cuda/pair_tile.cuh"
#include "kernels/library/nearest/nearest_device.cuh"
#include "kernels/library/nearest/nearest_kernels.h"

namespace maxsim::library {
namespace {

template <class T>
__global__ void __launch_bounds__(kPairThreads) WideNearestKernel(const __grid_constant__ NearestParams params) {
  __shared__ PairTileMemory memory;
  const NearestPart part = NearestPart::Of<kPairRowsX, kPairRowsY>(params);
  const int32_t dim = params.call.dim;
  const T* const x = static_cast<const T*>(params.call.x) + (part.set * params.call.max_x + part.x_begin) * dim;
  const T* const y = static_cast<const T*>(params.call.y) + part.set * params.call.max_y * dim;
  const int64_t rows_x = part.num_x - part.x_begin;  // rows of this and later tiles; none if not positive
  float best[kPairsX];
  int32_t argmin[kPairsX];
#pragma unroll
  for (int i = 0; i < kPairsX; ++i) {
    best[i] = kNearestInfinity;
    argmin[i] = part.y_begin;
  }
  const int32_t y_end = rows_x > 0 ? part.y_end : part.y_begin;
  for (int32_t begin = part.y_begin; begin < y_end; begin += kPairRowsY) {
    float sums[kPairsX][kPairsY];
    SumPairs(
        memory, dim,
        [&](int row, int32_t column) {
          return row < rows_x && column < dim ? Widen(x[static_cast<int64_t>(row) * dim + column]) : 0.0f;
        },
        [&](int row, int32_t column) {
          return row < y_end - begin && column < dim ? Widen(y[static_cast<int64_t>(begin + row) * dim + column])
                                                     : 0.0f;
        },
        [](float x_value, float y_value, float sum) {
          const float difference = __fsub_rn(x_value, y_value);
          return __fmaf_rn(difference, difference, sum);
        },
        sums);
#pragma unroll
    for (int k = 0; k < kPairsY; ++k) {
      const int32_t idx = FirstPairY() + k;
      if (idx >= y_end - begin) continue;
#pragma unroll
      for (int i = 0; i < kPairsX; ++i) {
        if (sums[i][k] < best[i]) {
          best[i] = sums[i][k];
          argmin[i] = begin + idx;
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPairsX; ++i) {
    // Finds the smallest distance of the 16 lanes that share the row and, of equal ones, the smallest index.
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best[i], offset);
      const int32_t other_argmin = __shfl_xor_sync(0xffffffffu, argmin[i], offset);
      if (other < best[i] || (other == best[i] && other_argmin < argmin[i])) {
        best[i] = other;
        argmin[i] = other_argmin;
      }
    }
    const int64_t point = part.x_begin + FirstPairX() + i;
    if (threadIdx.x % 16 == 0 && point < params.call.max_x) WritePart(params, part, point, best[i], argmin[i]);
  }
}

template <class T>
cudaError_t LaunchWideOf(const NearestParams& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.call.num_sets * params.num_x_tiles * params.num_splits));
  return cuda::LaunchKernel(WideNearestKernel<T>, grid, dim3(kPairThreads), 0, stream, params);
}

}  // namespace

cudaError_t LaunchWideNearest(const NearestParams& params, cudaStream_t stream) {
  return WithFloatType(params.call.type, [&](auto zero) { return LaunchWideOf<decltype(zero)>(params, stream); });
}

}  // namespace maxsim::library
