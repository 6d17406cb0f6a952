// Gradients of three-way maxima. The gradient of a query token depends on its best pair only. For gradients of first
// (or second) tokens, query tokens are sorted by the first (or second) token of their pair, and a warp adds up the
// query tokens of one such token in ascending order, without atomic additions.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/triadic/triadic_kernels.h"

namespace maxsim::library {
namespace {

constexpr int kPairKeyThreads = 256;
constexpr int kPairRowThreads = 128;
constexpr int kPairRowWarps = kPairRowThreads / 32;

// Returns the row of the first token (side 0) or second token (side 1) in a query token's best pair; -1 if the query
// token adds nothing to any gradient.
__device__ __forceinline__ int64_t PairRow(const TriadicMaxGradientParams& params, int64_t entry, int side) {
  const int32_t idx = params.argmax[2 * entry + side];
  if (idx < 0 || params.maximum_gradients[entry] == 0) return -1;
  const auto problem = static_cast<uint32_t>(entry) / static_cast<uint32_t>(params.call.max_queries);  // below 2^31
  return problem * (side == 0 ? params.call.max_first : params.call.max_second) + idx;
}

// Writes the rows that each query token points to.
__global__ void __launch_bounds__(kPairKeyThreads)
    PairKeysKernel(const __grid_constant__ TriadicMaxGradientParams params, int side, int64_t num_entries,
                   int64_t num_rows) {
  const int64_t entry = static_cast<int64_t>(blockIdx.x) * kPairKeyThreads + threadIdx.x;
  if (entry >= num_entries) return;
  const SortedMatches& matches = side == 0 ? params.first_matches : params.second_matches;
  const int64_t row = PairRow(params, entry, side);
  matches.keys[entry] = static_cast<uint32_t>(row >= 0 ? row : num_rows);
  matches.entries[entry] = static_cast<uint32_t>(entry);
}

// sum += factor * (left * right).
__device__ __forceinline__ void AddProduct(float factor, const Columns& left, const Columns& right, Columns& sum) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum.values[i] = __fmaf_rn(factor, left.values[i] * right.values[i], sum.values[i]);
}

// A warp computes 128 columns of the gradient of a query token.
template <class T>
__global__ void __launch_bounds__(kPairRowThreads)
    PairQueryGradientsKernel(const __grid_constant__ TriadicMaxGradientParams params, int64_t num_rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kPairRowWarps + threadIdx.x / 32;
  if (row >= num_rows) return;
  const int32_t dim = params.call.dim;
  const int32_t column = blockIdx.y * kBackwardColumns + (threadIdx.x % 32) * 4;
  const int64_t first = PairRow(params, row, 0);
  Columns sum;
  if (first >= 0) {
    AddProduct(params.maximum_gradients[row], ReadColumns<T>(params.call.first, first, dim, column, params.aligned),
               ReadColumns<T>(params.call.second, PairRow(params, row, 1), dim, column, params.aligned), sum);
  }
  WriteColumns<T>(params.query_gradients, row, dim, column, params.aligned, sum);
}

// A warp computes 128 columns of the gradient of a first token (side 0) or a second token (side 1).
template <class T>
__global__ void __launch_bounds__(kPairRowThreads)
    PairGradientsKernel(const __grid_constant__ TriadicMaxGradientParams params, int side, int64_t num_rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kPairRowWarps + threadIdx.x / 32;
  if (row >= num_rows) return;
  const SortedMatches& matches = side == 0 ? params.first_matches : params.second_matches;
  const void* const others = side == 0 ? params.call.second : params.call.first;
  const int32_t dim = params.call.dim;
  const int32_t column = blockIdx.y * kBackwardColumns + (threadIdx.x % 32) * 4;
  const uint32_t end = matches.row_end[row];
  Columns sum;
#pragma unroll 2
  for (uint32_t idx = matches.row_begin[row]; idx < end; ++idx) {
    const int64_t entry = matches.entries[idx];
    AddProduct(params.maximum_gradients[entry], ReadColumns<T>(params.call.queries, entry, dim, column, params.aligned),
               ReadColumns<T>(others, PairRow(params, entry, 1 - side), dim, column, params.aligned), sum);
  }
  WriteColumns<T>(side == 0 ? params.first_gradients : params.second_gradients, row, dim, column, params.aligned, sum);
}

dim3 RowGrid(int64_t num_rows, int32_t dim) {
  return {static_cast<unsigned>((num_rows + kPairRowWarps - 1) / kPairRowWarps),
          static_cast<unsigned>((dim + kBackwardColumns - 1) / kBackwardColumns)};
}

template <class T>
cudaError_t LaunchSide(const TriadicMaxGradientParams& params, int side, int64_t num_rows, cudaStream_t stream) {
  return cuda::LaunchKernel(PairGradientsKernel<T>, RowGrid(num_rows, params.call.dim), dim3(kPairRowThreads), 0,
                            stream, params, side, num_rows);
}

// Sorts the matches of one side and writes its gradients.
template <class T>
cudaError_t SortAndLaunchSide(TriadicMaxGradientParams& params, int side, cudaStream_t stream) {
  const maxsim_triadic_max_call& call = params.call;
  const int64_t num_entries = call.num_problems * call.max_queries;
  const int64_t num_rows = call.num_problems * (side == 0 ? call.max_first : call.max_second);
  if (num_rows == 0) return cudaSuccess;
  if (num_entries > 0) {
    const auto num_blocks = static_cast<unsigned>((num_entries + kPairKeyThreads - 1) / kPairKeyThreads);
    const cudaError_t error = cuda::LaunchKernel(PairKeysKernel, dim3(num_blocks), dim3(kPairKeyThreads), 0, stream,
                                                 params, side, num_entries, num_rows);
    if (error != cudaSuccess) return error;
  }
  SortedMatches& matches = side == 0 ? params.first_matches : params.second_matches;
  const cudaError_t error = SortMatches(&matches, num_entries, num_rows, stream);
  return error == cudaSuccess ? LaunchSide<T>(params, side, num_rows, stream) : error;
}

template <class T>
cudaError_t LaunchGradientsOf(TriadicMaxGradientParams& params, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  const int64_t num_queries = params.call.num_problems * params.call.max_queries;
  if (params.query_gradients != nullptr && num_queries > 0) {
    error = cuda::LaunchKernel(PairQueryGradientsKernel<T>, RowGrid(num_queries, params.call.dim),
                               dim3(kPairRowThreads), 0, stream, params, num_queries);
  }
  if (error == cudaSuccess && params.first_gradients != nullptr) error = SortAndLaunchSide<T>(params, 0, stream);
  if (error == cudaSuccess && params.second_gradients != nullptr) error = SortAndLaunchSide<T>(params, 1, stream);
  return error;
}

}  // namespace

cudaError_t LaunchTriadicMaxGradients(TriadicMaxGradientParams params, cudaStream_t stream) {
  return WithFloatType(params.call.type, [&](auto zero) { return LaunchGradientsOf<decltype(zero)>(params, stream); });
}

}  // namespace maxsim::library
