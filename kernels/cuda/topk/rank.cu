// Ranking by counting: the rank of a key is the number of larger ones, and there are no equal ones. Quadratic, but all
// keys at once and without a sort's passes: 4,096 candidates or 10,000 survivors take microseconds.
#include <algorithm>

#include "kernels/cuda/topk/key.cuh"
#include "kernels/cuda/topk/topk_launch.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanesOfKey = 8;  // that share the counting for one key
constexpr int kKeysOfBlock = kThreads / kLanesOfKey;
constexpr int kKeysInShared = 2048;

__global__ void __launch_bounds__(kThreads)
    RankKeys(const SelectQuery* queries, const float* scores, const uint64_t* keys, DeviceScored* results) {
  __shared__ uint64_t others[kKeysInShared];
  const SelectQuery query = queries[blockIdx.y];
  const bool selected = query.radix_idx >= 0;
  const int64_t num_keys = selected ? query.k : query.num_candidates;
  const float* own_scores = scores + query.scores_offset;
  const uint64_t* own_keys = keys + query.keys_offset;
  const auto key_at = [&](int64_t i) {
    return selected ? own_keys[i] : MakeKey(own_scores[i], static_cast<uint32_t>(i));
  };

  for (int64_t first = blockIdx.x * int64_t{kKeysOfBlock}; first < num_keys;
       first += gridDim.x * int64_t{kKeysOfBlock}) {
    const int64_t mine = first + threadIdx.x / kLanesOfKey;
    const uint64_t key = mine < num_keys ? key_at(mine) : 0;
    uint32_t rank = 0;
    for (int64_t begin = 0; begin < num_keys; begin += kKeysInShared) {
      const int count = static_cast<int>(min(num_keys - begin, int64_t{kKeysInShared}));
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += kThreads) others[i] = key_at(begin + i);
      __syncthreads();
#pragma unroll 4
      for (int i = threadIdx.x % kLanesOfKey; i < count; i += kLanesOfKey) rank += others[i] > key ? 1 : 0;
    }
    for (int distance = 1; distance < kLanesOfKey; distance *= 2) {
      rank += __shfl_xor_sync(0xffffffffu, rank, distance);
    }
    if (threadIdx.x % kLanesOfKey == 0 && mine < num_keys && rank < static_cast<uint32_t>(query.k)) {
      results[query.results_offset + rank] = {ScoreOf(key), PositionOf(key)};
    }
  }
}

}  // namespace

cudaError_t PrepareRank() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, RankKeys);
}

cudaError_t LaunchRank(const SelectPlan& plan, const SelectQuery* queries, int num_queries, const float* scores,
                       const uint64_t* keys, DeviceScored* results, cudaStream_t stream) {
  RankKeys<<<dim3(plan.rank_blocks, num_queries), kThreads, 0, stream>>>(queries, scores, keys, results);
  return cudaGetLastError();
}

}  // namespace maxsim::cuda
