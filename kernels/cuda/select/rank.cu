// Small selections. No two keys are equal, so a candidate's rank is the number of larger keys. The number of
// comparisons is quadratic in the number of candidates, but all of them run in parallel, and there are no passes as in
// a sort: 4,096 candidates take microseconds.
#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/select/completion.cuh"
#include "kernels/cuda/select/key.cuh"
#include "kernels/cuda/select/topk_launch.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanesPerKey = 8;  // lanes that count the larger keys for one key
constexpr int kKeysPerBlock = kThreads / kLanesPerKey;
constexpr int kSharedKeys = 2048;

__device__ __forceinline__ void Rank(const SelectQuery& query, const float* all_scores, DeviceScored* all_results,
                                     uint64_t (&others)[kSharedKeys]) {
  const int num_keys = static_cast<int>(query.num_candidates);
  const float* scores = all_scores + query.scores_offset;
  for (int first = blockIdx.x * kKeysPerBlock; first < num_keys; first += gridDim.x * kKeysPerBlock) {
    const int mine = first + threadIdx.x / kLanesPerKey;
    const uint64_t key = mine < num_keys ? MakeKey(scores[mine], static_cast<uint32_t>(mine)) : 0;
    uint32_t rank = 0;
    for (int begin = 0; begin < num_keys; begin += kSharedKeys) {
      const int count = min(num_keys - begin, kSharedKeys);
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += kThreads) {
        others[i] = MakeKey(scores[begin + i], static_cast<uint32_t>(begin + i));
      }
      __syncthreads();
#pragma unroll 4
      for (int i = threadIdx.x % kLanesPerKey; i < count; i += kLanesPerKey) rank += others[i] > key ? 1 : 0;
    }
    for (int distance = 1; distance < kLanesPerKey; distance *= 2) {
      rank += __shfl_xor_sync(0xffffffffu, rank, distance);
    }
    if (threadIdx.x % kLanesPerKey == 0 && mine < num_keys && rank < static_cast<uint32_t>(query.k)) {
      StoreResult(all_results + query.results_offset + rank, ScoreOf(key), PositionOf(key));
    }
  }
}

__global__ void __launch_bounds__(kThreads) RankKernel(const __grid_constant__ SelectCall call, CallTimes* times) {
  __shared__ uint64_t others[kSharedKeys];
  WaitForEarlierGrids();
  NoteTimeOnce(times, &CallTimes::scores_end);
  const bool only = call.num_large + call.num_small == 1;
  Rank(only ? call.only : call.queries[call.num_large + blockIdx.y], call.scores, call.results, others);
  NoteTimeOnce(times, &CallTimes::results_end);
}

}  // namespace

cudaError_t PrepareRank(bool& overlap) { return FindGridOrder(RankKernel, overlap); }

cudaError_t LaunchRank(const SelectCall& call, CallTimes* times, bool overlap, cudaStream_t stream) {
  const dim3 grid(call.most_rank_blocks, call.num_small);
  return LaunchOverlappingIf(overlap, RankKernel, grid, kThreads, 0, stream, call, times);
}

}  // namespace maxsim::cuda
