// Gradients of queries and of weights: each row gathers the document rows that it matched, in the order of pairs.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"

namespace maxsim::library {
namespace {

constexpr int kQueryGradientThreads = 128;
constexpr int kQueryGradientWarps = kQueryGradientThreads / 32;
// Blocks of a multiprocessor that are enough to hide loads: without it, ptxas spills to fit in more.
constexpr int kWeightGradientBlocks = 8;

// The token of a query that a warp has: tokens up to max_tokens are dealt out, and not all of them are there.
struct QueryToken {
  int64_t query;
  int64_t token;
  int64_t row;
  bool there;

  __device__ __forceinline__ QueryToken(const maxsim_tokens& queries, int64_t idx)
      : query(idx / queries.max_tokens), token(idx % queries.max_tokens) {
    row = FirstRow(queries, query) + token;
    there = token < NumRows(queries, query);
  }
};

// A warp has 128 columns of a row.
template <class T>
__global__ void __launch_bounds__(kQueryGradientThreads)
    QueryGradientsKernel(const __grid_constant__ BackwardParams params) {
  const DeviceProblem& problem = params.problem;
  const maxsim_tokens& queries = problem.queries;
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * kQueryGradientWarps + threadIdx.x / 32;
  if (idx >= queries.num_sequences * queries.max_tokens) return;
  const QueryToken mine(queries, idx);
  // Rows of padding get zeros; a packed matrix has been set to zero before.
  if (!mine.there && queries.layout != MAXSIM_PADDED) return;
  const int32_t column = blockIdx.y * kBackwardColumns + (threadIdx.x % 32) * 4;
  Columns sum;
  if (mine.there) {
    bool any_match = false;
#pragma unroll 4
    for (int64_t k = 0; k < problem.list_length; ++k) {
      const int64_t pair = mine.query * problem.list_length + k;
      const int32_t match = params.argmax[pair * queries.max_tokens + mine.token];
      const float gradient = params.score_gradients[pair];
      if (match < 0 || gradient == 0) continue;
      any_match = true;
      const int64_t row = FirstRow(problem.documents, DocumentAt(problem, pair)) + match;
      sum.Add(gradient, ReadColumns<T>(problem.documents.rows, row, queries.dim, column, params.aligned));
    }
    // The weight of a token that does not count may be NaN.
    const float weight = any_match && problem.weights != nullptr ? problem.weights[mine.row] : 1.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.values[i] *= weight;
  }
  WriteColumns<T>(params.query_gradients, mine.row, queries.dim, column, params.aligned, sum);
}

// A warp has a token, and computes the similarity of each of its matches again.
template <class T>
__global__ void __launch_bounds__(kQueryGradientThreads, kWeightGradientBlocks)
    WeightGradientsKernel(const __grid_constant__ BackwardParams params) {
  const DeviceProblem& problem = params.problem;
  const maxsim_tokens& queries = problem.queries;
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * kQueryGradientWarps + threadIdx.x / 32;
  if (idx >= queries.num_sequences * queries.max_tokens) return;
  const QueryToken mine(queries, idx);
  if (!mine.there && queries.layout != MAXSIM_PADDED) return;
  const int lane = threadIdx.x % 32;
  float gradient = 0;
  for (int64_t k = 0; mine.there && k < problem.list_length; ++k) {
    const int64_t pair = mine.query * problem.list_length + k;
    const int32_t match = params.argmax[pair * queries.max_tokens + mine.token];
    const float score_gradient = params.score_gradients[pair];
    if (match < 0 || score_gradient == 0) continue;
    const int64_t row = FirstRow(problem.documents, DocumentAt(problem, pair)) + match;
    float similarity = 0;
    for (int32_t column = lane * 4; column < queries.dim; column += kBackwardColumns) {
      const Columns a = ReadColumns<T>(queries.rows, mine.row, queries.dim, column, params.aligned);
      const Columns b = ReadColumns<T>(problem.documents.rows, row, queries.dim, column, params.aligned);
#pragma unroll
      for (int i = 0; i < 4; ++i) similarity = __fmaf_rn(a.values[i], b.values[i], similarity);
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      similarity += __shfl_xor_sync(0xffffffffu, similarity, distance);
    }
    gradient = __fmaf_rn(score_gradient, similarity, gradient);
  }
  if (lane == 0) params.weight_gradients[mine.row] = gradient;
}

template <class T>
cudaError_t LaunchOfType(const BackwardParams& params, cudaStream_t stream) {
  const maxsim_tokens& queries = params.problem.queries;
  const int64_t num_tokens = queries.num_sequences * queries.max_tokens;
  const auto num_blocks = static_cast<unsigned>((num_tokens + kQueryGradientWarps - 1) / kQueryGradientWarps);
  const auto num_parts = static_cast<unsigned>((queries.dim + kBackwardColumns - 1) / kBackwardColumns);
  cudaError_t error = cudaSuccess;
  const bool packed = queries.layout != MAXSIM_PADDED && queries.num_rows > 0;
  if (params.query_gradients != nullptr) {
    if (packed) {
      error =
          cudaMemsetAsync(params.query_gradients, 0,
                          static_cast<size_t>(queries.num_rows) * static_cast<size_t>(queries.dim) * sizeof(T), stream);
    }
    if (error == cudaSuccess && num_blocks > 0) {
      error = cuda::LaunchKernel(QueryGradientsKernel<T>, dim3(num_blocks, num_parts), dim3(kQueryGradientThreads), 0,
                                 stream, params);
    }
  }
  if (error == cudaSuccess && params.weight_gradients != nullptr) {
    if (packed) {
      error =
          cudaMemsetAsync(params.weight_gradients, 0, static_cast<size_t>(queries.num_rows) * sizeof(float), stream);
    }
    if (error == cudaSuccess && num_blocks > 0) {
      error = cuda::LaunchKernel(WeightGradientsKernel<T>, dim3(num_blocks), dim3(kQueryGradientThreads), 0, stream,
                                 params);
    }
  }
  return error;
}

}  // namespace

cudaError_t LaunchQueryGradients(const BackwardParams& params, cudaStream_t stream) {
  switch (params.problem.queries.type) {
    case MAXSIM_F32:
      return LaunchOfType<float>(params, stream);
    case MAXSIM_F16:
      return LaunchOfType<__half>(params, stream);
    default:
      return LaunchOfType<__nv_bfloat16>(params, stream);
  }
}

}  // namespace maxsim::library
