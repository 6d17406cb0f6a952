// Three-way MaxSim. A thread block handles one query token. While it loads first tokens, it multiplies them with the
// query token, column by column. Then it computes the inner products of these products with second tokens, tile by tile
// (SumPairs).
#include <cuda_runtime.h>

#include <limits>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/cuda/pair_tile.cuh"
#include "kernels/library/triadic/triadic_kernels.h"

namespace maxsim::library {
namespace {

constexpr float kLowestMaximum = -std::numeric_limits<float>::infinity();

__device__ __forceinline__ int32_t LengthOf(const maxsim_triadic_max_call& call, const void* lengths, int64_t max_rows,
                                            int64_t problem) {
  if (lengths == nullptr) return static_cast<int32_t>(max_rows);
  return call.index_type == MAXSIM_INT32 ? static_cast<const int32_t*>(lengths)[problem]
                                         : static_cast<int32_t>(static_cast<const int64_t*>(lengths)[problem]);
}

// Packs a pair into an integer so that packed pairs compare like (first, second). A problem has at most 65,536 first
// and as many second tokens.
__device__ __forceinline__ uint32_t PackPair(int32_t first, int32_t second) {
  return static_cast<uint32_t>(first) << 16 | static_cast<uint32_t>(second);
}

struct DeviceBestPair {
  float maximum;
  uint32_t pair;

  __device__ __forceinline__ void Take(float other, uint32_t other_pair) {
    if (other > maximum || (other == maximum && other_pair < pair)) {
      maximum = other;
      pair = other_pair;
    }
  }
};

// Writes the result of a query token: `best` or, if the token is past the problem's length or there is no pair, the
// results that triadic.h states.
__device__ __forceinline__ void WriteMaximum(const TriadicMaxParams& params, int64_t row, DeviceBestPair best) {
  const maxsim_triadic_max_call& call = params.call;
  const int64_t problem = row / call.max_queries;
  const bool counts = row % call.max_queries < LengthOf(call, call.query_lengths, call.max_queries, problem);
  const bool any = counts && LengthOf(call, call.first_lengths, call.max_first, problem) > 0 &&
                   LengthOf(call, call.second_lengths, call.max_second, problem) > 0;
  params.maxima[row] = any ? best.maximum : counts ? kLowestMaximum : 0.0f;
  params.argmax[2 * row] = any ? static_cast<int32_t>(best.pair >> 16) : -1;
  params.argmax[2 * row + 1] = any ? static_cast<int32_t>(best.pair & 0xffff) : -1;
}

template <class T>
__global__ void __launch_bounds__(kPairThreads) TriadicMaxKernel(const __grid_constant__ TriadicMaxParams params) {
  __shared__ PairTileMemory memory;
  __shared__ DeviceBestPair warp_best[kPairThreads / 32];
  const maxsim_triadic_max_call& call = params.call;
  const uint32_t split = blockIdx.x % params.num_splits;
  const int64_t row = blockIdx.x / params.num_splits;
  const int64_t problem = row / call.max_queries;
  const int32_t dim = call.dim;
  const T* const query = static_cast<const T*>(call.queries) + row * dim;
  const T* const first = static_cast<const T*>(call.first) + problem * call.max_first * dim;
  const T* const second = static_cast<const T*>(call.second) + problem * call.max_second * dim;
  const bool counts = row % call.max_queries < LengthOf(call, call.query_lengths, call.max_queries, problem);
  const int32_t num_first = counts ? LengthOf(call, call.first_lengths, call.max_first, problem) : 0;
  const int32_t num_second = LengthOf(call, call.second_lengths, call.max_second, problem);
  const auto stride = static_cast<int32_t>(params.num_splits * kPairRowsX);
  DeviceBestPair best = {kLowestMaximum, 0};
  for (int32_t first_begin = static_cast<int32_t>(split) * kPairRowsX; first_begin < num_first; first_begin += stride) {
    for (int32_t second_begin = 0; second_begin < num_second; second_begin += kPairRowsY) {
      float sums[kPairsX][kPairsY];
      SumPairs(
          memory, dim,
          [&](int idx, int32_t column) {
            if (idx >= num_first - first_begin || column >= dim) return 0.0f;
            return Widen(query[column]) * Widen(first[static_cast<int64_t>(first_begin + idx) * dim + column]);
          },
          [&](int idx, int32_t column) {
            if (idx >= num_second - second_begin || column >= dim) return 0.0f;
            return Widen(second[static_cast<int64_t>(second_begin + idx) * dim + column]);
          },
          [](float x, float y, float sum) { return __fmaf_rn(x, y, sum); }, sums);
#pragma unroll
      for (int i = 0; i < kPairsX; ++i) {
        const int32_t first_idx = first_begin + FirstPairX() + i;
        if (first_idx >= num_first) continue;
#pragma unroll
        for (int k = 0; k < kPairsY; ++k) {
          const int32_t second_idx = second_begin + FirstPairY() + k;
          if (second_idx < num_second) best.Take(sums[i][k], PackPair(first_idx, second_idx));
        }
      }
    }
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, best.maximum, offset);
    best.Take(other, __shfl_xor_sync(0xffffffffu, best.pair, offset));
  }
  if (threadIdx.x % 32 == 0) warp_best[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kPairThreads / 32; ++warp) best.Take(warp_best[warp].maximum, warp_best[warp].pair);
  if (params.num_splits == 1) {
    WriteMaximum(params, row, best);
    return;
  }
  const int64_t at = split * (call.num_problems * call.max_queries) + row;
  params.split_maxima[at] = best.maximum;
  params.split_pairs[at] = best.pair;
}

constexpr int kJoinPairsThreads = 128;

__global__ void __launch_bounds__(kJoinPairsThreads) JoinPairsKernel(const __grid_constant__ TriadicMaxParams params) {
  const int64_t num_rows = params.call.num_problems * params.call.max_queries;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kJoinPairsThreads + threadIdx.x;
  if (row >= num_rows) return;
  DeviceBestPair best = {kLowestMaximum, 0};
  for (uint32_t split = 0; split < params.num_splits; ++split) {
    best.Take(params.split_maxima[split * num_rows + row], params.split_pairs[split * num_rows + row]);
  }
  WriteMaximum(params, row, best);
}

}  // namespace

void PlanTriadicMax(TriadicMaxParams* params) {
  const maxsim_triadic_max_call& call = params->call;
  const int64_t num_rows = call.num_problems * call.max_queries;
  const int64_t num_tiles = (call.max_first + kPairRowsX - 1) / kPairRowsX;
  // About eight thread blocks per multiprocessor of a large GPU.
  constexpr int64_t kWantedBlocks = 1024;
  params->num_splits = 1;
  if (num_rows == 0 || num_rows >= kWantedBlocks || num_tiles < 2) return;
  const int64_t splits = (kWantedBlocks + num_rows - 1) / num_rows;
  params->num_splits = static_cast<uint32_t>(splits < num_tiles ? splits : num_tiles);
}

cudaError_t LaunchTriadicMax(const TriadicMaxParams& params, cudaStream_t stream) {
  const int64_t num_rows = params.call.num_problems * params.call.max_queries;
  if (num_rows == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(num_rows * params.num_splits));
  const dim3 threads(kPairThreads);
  const cudaError_t error = WithFloatType(params.call.type, [&](auto zero) {
    return cuda::LaunchKernel(TriadicMaxKernel<decltype(zero)>, grid, threads, 0, stream, params);
  });
  if (error != cudaSuccess || params.num_splits == 1) return error;
  const auto num_blocks = static_cast<unsigned>((num_rows + kJoinPairsThreads - 1) / kJoinPairsThreads);
  return cuda::LaunchKernel(JoinPairsKernel, dim3(num_blocks), dim3(kJoinPairsThreads), 0, stream, params);
}

}  // namespace maxsim::library
