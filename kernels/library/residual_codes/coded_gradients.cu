// Gradients of queries and of weights over residual codes. A warp handles one query token: it decodes the document
// tokens that the query token matched, and adds them in the order of pairs.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/residual_codes/coded_forward.h"

namespace maxsim::library {
namespace {

constexpr int kCodedGradientThreads = 128;
constexpr int kCodedGradientWarps = kCodedGradientThreads / 32;
constexpr float kMinGradientNorm = 1e-12f;

__device__ __forceinline__ float SumOfWarp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

// Decodes columns `column` .. `column` + 3 of a document token. Columns from `dim` on are zero.
template <class T>
__device__ __forceinline__ Columns DecodeFour(const CodedGradientParams& params, int64_t number, int64_t row,
                                              int32_t column) {
  const maxsim_residual_codes& codes = params.codes;
  const int32_t dim = params.problem.queries.dim;
  Columns columns = ReadColumns<T>(codes.centroids, number, dim, column, /*aligned=*/false);
  const uint8_t* const residuals = codes.residuals + row * params.packed_row_bytes;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (column + i >= dim) continue;
    const int32_t bit = (column + i) * codes.nbits;
    uint32_t byte = residuals[bit / 8];
    if (codes.bit_order == MAXSIM_COLBERT_BITS) byte = __brev(byte) >> 24;
    const float weight = codes.bucket_weights[byte >> (bit % 8) & ((1u << codes.nbits) - 1)];
    columns.values[i] = Widen(Narrow<T>(__fadd_rn(columns.values[i], Widen(Narrow<T>(weight)))));
  }
  return columns;
}

// The document token that a query token matched in a pair. If `factor` is 0, it adds nothing to the gradient.
struct CodedMatch {
  int64_t row = 0;
  int64_t number = 0;
  float factor = 0;  // the score's gradient
};

__device__ __forceinline__ CodedMatch MatchOf(const CodedGradientParams& params, int64_t pair, int64_t token) {
  const DeviceProblem& problem = params.problem;
  const int32_t match = params.argmax[pair * problem.queries.max_tokens + token];
  const float gradient = params.score_gradients[pair];
  if (match < 0 || gradient == 0) return {};
  const int64_t row = FirstRow(problem.documents, DocumentAt(problem, pair)) + match;
  const int64_t number = params.codes.number_type == MAXSIM_INT32
                             ? static_cast<const int32_t*>(params.codes.centroid_numbers)[row]
                             : static_cast<const int64_t*>(params.codes.centroid_numbers)[row];
  return {row, max(int64_t{0}, min(params.codes.num_centroids - 1, number)), gradient};
}

// Returns the factor by which a decoded vector is multiplied: 1 / its norm if vectors are normalised, otherwise 1.
template <class T>
__device__ __forceinline__ float NormFactor(const CodedGradientParams& params, const CodedMatch& match, int lane) {
  if (params.codes.normalize == 0) return 1.0f;
  float squares = 0;
  for (int32_t column = lane * 4; column < params.problem.queries.dim; column += 128) {
    const Columns columns = DecodeFour<T>(params, match.number, match.row, column);
#pragma unroll
    for (int i = 0; i < 4; ++i) squares = __fmaf_rn(columns.values[i], columns.values[i], squares);
  }
  return __fdiv_rn(1.0f, fmaxf(__fsqrt_rn(SumOfWarp(squares)), kMinGradientNorm));
}

// A warp computes 128 columns of the gradient of a query row. Thread blocks with blockIdx.y == 0 also write the
// gradients of weights.
template <class T>
__global__ void __launch_bounds__(kCodedGradientThreads)
    CodedGradientsKernel(const __grid_constant__ CodedGradientParams params) {
  const DeviceProblem& problem = params.problem;
  const maxsim_tokens& queries = problem.queries;
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * kCodedGradientWarps + threadIdx.x / 32;
  if (idx >= queries.num_sequences * queries.max_tokens) return;
  const int64_t query = idx / queries.max_tokens;
  const int64_t token = idx % queries.max_tokens;
  const int64_t query_row = FirstRow(queries, query) + token;
  const bool there = token < NumRows(queries, query);
  // In a padded layout, rows without a token get zeros. In other layouts the caller has set all rows to zero.
  if (!there && queries.layout != MAXSIM_PADDED) return;
  const int lane = threadIdx.x % 32;
  const int32_t own_column = blockIdx.y * 128 + lane * 4;
  const bool of_weight = params.weight_gradients != nullptr && blockIdx.y == 0;
  Columns sum;
  float weight_sum = 0;
  bool any_match = false;
  for (int64_t k = 0; there && k < problem.list_length; ++k) {
    const CodedMatch match = MatchOf(params, query * problem.list_length + k, token);
    if (match.factor == 0) continue;
    any_match = true;
    const float norm_factor = NormFactor<T>(params, match, lane);
    if (params.query_gradients != nullptr) {
      Columns columns = DecodeFour<T>(params, match.number, match.row, own_column);
#pragma unroll
      for (int i = 0; i < 4; ++i) columns.values[i] = __fmul_rn(columns.values[i], norm_factor);
      sum.Add(match.factor, columns);
    }
    if (!of_weight) continue;
    float similarity = 0;
    for (int32_t column = lane * 4; column < queries.dim; column += 128) {
      const Columns a = ReadColumns<T>(queries.rows, query_row, queries.dim, column, /*aligned=*/false);
      const Columns b = DecodeFour<T>(params, match.number, match.row, column);
#pragma unroll
      for (int i = 0; i < 4; ++i) similarity = __fmaf_rn(a.values[i], b.values[i], similarity);
    }
    weight_sum = __fmaf_rn(match.factor, __fmul_rn(SumOfWarp(similarity), norm_factor), weight_sum);
  }
  if (of_weight && lane == 0) params.weight_gradients[query_row] = weight_sum;
  if (params.query_gradients == nullptr) return;
  // The weight of a token that does not count may be NaN.
  const float weight = any_match && problem.weights != nullptr ? problem.weights[query_row] : 1.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum.values[i] *= weight;
  WriteColumns<T>(params.query_gradients, query_row, queries.dim, own_column, /*aligned=*/false, sum);
}

template <class T>
cudaError_t LaunchGradientsOf(const CodedGradientParams& params, cudaStream_t stream) {
  const maxsim_tokens& queries = params.problem.queries;
  if (queries.layout != MAXSIM_PADDED && queries.num_rows > 0) {
    const auto num_rows = static_cast<size_t>(queries.num_rows);
    cudaError_t error = cudaSuccess;
    if (params.query_gradients != nullptr) {
      error =
          cudaMemsetAsync(params.query_gradients, 0, num_rows * static_cast<size_t>(queries.dim) * sizeof(T), stream);
    }
    if (error == cudaSuccess && params.weight_gradients != nullptr) {
      error = cudaMemsetAsync(params.weight_gradients, 0, num_rows * sizeof(float), stream);
    }
    if (error != cudaSuccess) return error;
  }
  const int64_t num_tokens = queries.num_sequences * queries.max_tokens;
  if (num_tokens == 0 || (params.query_gradients == nullptr && params.weight_gradients == nullptr)) return cudaSuccess;
  const auto num_blocks = static_cast<unsigned>((num_tokens + kCodedGradientWarps - 1) / kCodedGradientWarps);
  const auto num_parts = params.query_gradients == nullptr ? 1u : static_cast<unsigned>((queries.dim + 127) / 128);
  return cuda::LaunchKernel(CodedGradientsKernel<T>, dim3(num_blocks, num_parts), dim3(kCodedGradientThreads), 0,
                            stream, params);
}

}  // namespace

cudaError_t LaunchCodedGradients(const CodedGradientParams& params, cudaStream_t stream) {
  return WithFloatType(params.problem.queries.type,
                       [&](auto zero) { return LaunchGradientsOf<decltype(zero)>(params, stream); });
}

}  // namespace maxsim::library
