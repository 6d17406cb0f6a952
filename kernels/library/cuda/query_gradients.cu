// Gradients of queries and of weights. For each query token, a warp (or several) reads the document rows that the token
// matched.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"

namespace maxsim::library {
namespace {

constexpr int kGatherWarps = 16;
constexpr int kGatherThreads = kGatherWarps * 32;
constexpr int kGatherBlocks = 2;  // per multiprocessor
// Document rows that a warp reads at a time, to hide memory latency.
template <bool kAligned>
inline constexpr int kRowsAtATime = kAligned ? 4 : 1;
// Enough warps to keep a GPU busy. With fewer tokens, several warps share one token. The number is the same for all
// GPUs, because the order of additions depends on it.
constexpr int64_t kWarpsWanted = 8192;

// The query token of a warp. Every query gets warps for max_tokens tokens, so some of the tokens do not exist (`there`
// is false). The numbers of tokens and pairs fit 31 bits (CheckGradientSizes).
struct QueryToken {
  uint32_t query;
  uint32_t token;
  bool there;
  bool written;  // rows of padding get zeros; a packed matrix has been set to zero before
  int64_t row = 0;

  __device__ __forceinline__ QueryToken(const maxsim_tokens& queries, uint32_t idx)
      : query(idx / static_cast<uint32_t>(queries.max_tokens)),
        token(idx % static_cast<uint32_t>(queries.max_tokens)),
        there(query < queries.num_sequences && static_cast<int32_t>(token) < NumRows(queries, query)),
        written(there || (queries.layout == MAXSIM_PADDED && query < queries.num_sequences)) {
    if (written) row = FirstRow(queries, query) + token;
  }
};

// Sums gradient * matched row over a part of a token's pairs. One warp does this, with four columns per lane.
template <class T, bool kAligned>
class MatchedRows {
 public:
  __device__ __forceinline__ MatchedRows(const BackwardParams& params, const QueryToken& mine, int32_t column)
      : params_(params), mine_(mine), column_(column) {}

  // Adds every num_parts-th group of 32 pairs, beginning with group `part`. Returns whether any of these pairs has a
  // match.
  __device__ __forceinline__ bool Gather(uint32_t part, uint32_t num_parts) {
    bool any_match = false;
    uint32_t first = 32 * part;
    Match next = MatchAt(first);
    while (first < params_.problem.list_length) {
      const Match match = next;
      first += 32 * num_parts;
      next = MatchAt(first);  // loads while rows are added
      uint32_t matched = __ballot_sync(0xffffffffu, match.row >= 0);
      any_match = any_match || matched != 0;
      while (__popc(matched) >= kRowsAtATime<kAligned>) matched = Add<kRowsAtATime<kAligned>>(matched, match);
      while (matched != 0) matched = Add<1>(matched, match);
    }
    return any_match;
  }

  Columns sum;

 private:
  // A token's match in one pair: the document row, negative if there is none, and the gradient of the score.
  struct Match {
    int64_t row;
    float gradient;
  };

  __device__ __forceinline__ Match MatchAt(uint32_t first) const {
    const DeviceProblem& problem = params_.problem;
    const uint32_t idx = first + threadIdx.x % 32;
    if (idx >= problem.list_length) return {-1, 0};
    const int64_t pair = mine_.query * problem.list_length + idx;
    const int32_t token = params_.argmax[pair * problem.queries.max_tokens + mine_.token];
    const float gradient = params_.score_gradients[pair];
    if (token < 0 || gradient == 0) return {-1, 0};
    return {FirstRow(problem.documents, DocumentAt(problem, pair)) + token, gradient};
  }

  // Adds the matched rows of the first kCount lanes whose bit is set in `matched`. Returns `matched` without these
  // bits.
  template <int kCount>
  __device__ __forceinline__ uint32_t Add(uint32_t matched, const Match& match) {
    FourElements<T> rows[kCount];
    float factors[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int lane = __ffs(static_cast<int>(matched)) - 1;
      matched &= matched - 1;
      factors[i] = __shfl_sync(0xffffffffu, match.gradient, lane);
      rows[i] = ReadElements<T, kAligned>(params_.problem.documents.rows, __shfl_sync(0xffffffffu, match.row, lane),
                                          params_.problem.queries.dim, column_);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum.Add(factors[i], Widen(rows[i]));
    return matched;
  }

  const BackwardParams& params_;
  const QueryToken& mine_;
  int32_t column_;
};

// A warp computes 128 columns of a token's gradient. Warps that share a token add their sums in shared memory. If the
// weight's gradient is requested, a warp computes all columns, 128 at a time, because this gradient is the inner
// product of the whole sum and the query's row.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kGatherThreads, kGatherBlocks)
    QueryGradientsKernel(const __grid_constant__ BackwardParams params, uint32_t num_parts) {
  __shared__ float4 sums[kGatherWarps][32];
  __shared__ bool matches[kGatherWarps];
  const DeviceProblem& problem = params.problem;
  const maxsim_tokens& queries = problem.queries;
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t part = warp % num_parts;
  const QueryToken mine(queries, blockIdx.x * (kGatherWarps / num_parts) + warp / num_parts);
  float weight_gradient = 0;
  for (int32_t first_column = static_cast<int32_t>(blockIdx.y) * kBackwardColumns; first_column < queries.dim;
       first_column += static_cast<int32_t>(gridDim.y) * kBackwardColumns) {
    const int32_t column = first_column + static_cast<int32_t>(lane) * 4;
    MatchedRows<T, kAligned> rows(params, mine, column);
    bool any_match = mine.there && rows.Gather(part, num_parts);
    if (num_parts > 1) {
      __syncthreads();  // all warps have read the sums of the previous 128 columns
      sums[warp][lane] = make_float4(rows.sum.values[0], rows.sum.values[1], rows.sum.values[2], rows.sum.values[3]);
      if (lane == 0) matches[warp] = any_match;
      __syncthreads();
      for (uint32_t other = 1; part == 0 && other < num_parts; ++other) {
        const float4 sum = sums[warp + other][lane];
        rows.sum.Add(1.0f, Columns{{sum.x, sum.y, sum.z, sum.w}});
        any_match = any_match || matches[warp + other];
      }
    }
    if (part != 0 || !mine.written) continue;
    // Skips tokens without a match: a token that does not count may have NaN as its weight or in its row.
    if (any_match && params.weight_gradients != nullptr) {
      const Columns own = ReadColumns<T>(queries.rows, mine.row, queries.dim, column, kAligned);
#pragma unroll
      for (int i = 0; i < 4; ++i) weight_gradient = __fmaf_rn(own.values[i], rows.sum.values[i], weight_gradient);
    }
    if (params.query_gradients == nullptr) continue;
    const float weight = any_match && problem.weights != nullptr ? problem.weights[mine.row] : 1.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) rows.sum.values[i] *= weight;
    WriteColumns<T>(params.query_gradients, mine.row, queries.dim, column, kAligned, rows.sum);
  }
  if (part != 0 || !mine.written || params.weight_gradients == nullptr) return;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    weight_gradient += __shfl_xor_sync(0xffffffffu, weight_gradient, distance);
  }
  if (lane == 0) params.weight_gradients[mine.row] = weight_gradient;
}

// Returns how many warps share a token. The number is a power of two.
uint32_t NumParts(int64_t num_tokens, int64_t list_length) {
  uint32_t num_parts = 1;
  while (num_parts < kGatherWarps && num_tokens * num_parts < kWarpsWanted && int64_t{32} * num_parts < list_length) {
    num_parts *= 2;
  }
  return num_parts;
}

template <class T>
cudaError_t LaunchOfType(const BackwardParams& params, cudaStream_t stream) {
  const maxsim_tokens& queries = params.problem.queries;
  cudaError_t error = cudaSuccess;
  if (queries.layout != MAXSIM_PADDED && queries.num_rows > 0) {
    const auto num_rows = static_cast<size_t>(queries.num_rows);
    if (params.query_gradients != nullptr) {
      error =
          cudaMemsetAsync(params.query_gradients, 0, num_rows * static_cast<size_t>(queries.dim) * sizeof(T), stream);
    }
    if (error == cudaSuccess && params.weight_gradients != nullptr) {
      error = cudaMemsetAsync(params.weight_gradients, 0, num_rows * sizeof(float), stream);
    }
  }
  const int64_t num_tokens = queries.num_sequences * queries.max_tokens;
  if (error != cudaSuccess || num_tokens == 0) return error;
  const uint32_t num_parts = NumParts(num_tokens, params.problem.list_length);
  const uint32_t tokens_per_block = kGatherWarps / num_parts;
  const auto num_blocks = static_cast<unsigned>((num_tokens + tokens_per_block - 1) / tokens_per_block);
  const auto column_parts = static_cast<unsigned>((queries.dim + kBackwardColumns - 1) / kBackwardColumns);
  return cuda::LaunchKernel(params.aligned ? QueryGradientsKernel<T, true> : QueryGradientsKernel<T, false>,
                            dim3(num_blocks, params.weight_gradients == nullptr ? column_parts : 1),
                            dim3(kGatherThreads), 0, stream, params, num_parts);
}

}  // namespace

cudaError_t LaunchQueryGradients(const BackwardParams& params, cudaStream_t stream) {
  return WithFloatType(params.problem.queries.type,
                       [&](auto zero) { return LaunchOfType<decltype(zero)>(params, stream); });
}

}  // namespace maxsim::library
