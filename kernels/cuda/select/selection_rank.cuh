// The ranks of the gathered candidates in a large selection (selection.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/selection.cuh"

namespace maxsim::cuda::selection {

__device__ __forceinline__ void Selection::Rank(KeyWindow window) {
  const uint32_t count = shared_.list_begins[num_lists_];
  // Ranking against all others takes count^2 / splits comparisons per thread block. Ranking by bins takes a few
  // microseconds, whatever the count is.
  const bool few = count <= 2048 && count * count <= 65536 * num_splits_;
  if (few || !CountBins(window, count)) {
    for (uint32_t i = 0; i < num_own_splits_; ++i) RankAgainstAll(shared_.splits[i], count);
  } else {
    for (uint32_t i = 0; i < num_own_splits_; ++i) RankByBins(window, shared_.splits[i], count);
  }
}

__device__ __forceinline__ void Selection::RankAgainstAll(uint32_t split, uint32_t count) {
  for (uint32_t first = split; first < count; first += num_splits_ * kSelectWarps * kKeysPerWarp) {
    uint64_t mine[kKeysPerWarp];
    uint32_t ranks[kKeysPerWarp];
    int num_mine = 0;
#pragma unroll
    for (int r = 0; r < kKeysPerWarp; ++r) {
      const uint32_t i = first + num_splits_ * (warp_ + kSelectWarps * r);
      mine[r] = i < count ? Candidate(i) : 0;
      ranks[r] = 0;
      if (i < count) num_mine = r + 1;
    }
    for (uint32_t begin = 0; begin < count; begin += kSharedKeys) {
      const uint32_t in_tile = min(count - begin, kSharedKeys);
      __syncthreads();
      for (uint32_t i = thread_; i < in_tile; i += kSelectThreads) shared_.keys[i] = Candidate(begin + i);
      __syncthreads();
      if (num_mine == 1) {
        for (uint32_t i = lane_; i < in_tile; i += 32) ranks[0] += shared_.keys[i] > mine[0] ? 1 : 0;
      } else if (num_mine > 1) {
        for (uint32_t i = lane_; i < in_tile; i += 32) {
          const uint64_t other = shared_.keys[i];
#pragma unroll
          for (int r = 0; r < kKeysPerWarp; ++r) ranks[r] += other > mine[r] ? 1 : 0;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kKeysPerWarp; ++r) {
      const uint32_t rank = __reduce_add_sync(kAllLanes, ranks[r]);
      if (lane_ == 0 && r < num_mine) Write(mine[r], rank);
    }
  }
}

__device__ __forceinline__ bool Selection::CountBins(KeyWindow window, uint32_t count) {
  __syncthreads();
  shared_.histogram[thread_] = shared_.histogram[thread_ + kSelectThreads] = 0;
  __syncthreads();
  for (uint32_t i = thread_; i < count; i += kSelectThreads) {
    atomicAdd(&shared_.histogram[window.BinOf(Candidate(i))], 1u);
  }
  __syncthreads();
  const uint32_t high = kSelectBins - 1 - 2 * thread_;
  const uint32_t count_high = shared_.histogram[high], count_low = shared_.histogram[high - 1];
  const uint32_t above = SumBefore(count_high + count_low, shared_.scan);
  shared_.first_ranks[high] = above;
  shared_.first_ranks[high - 1] = above + count_high;
  const bool full =
      (above < k_ && count_high > kMaxKeysPerBin) || (above + count_high < k_ && count_low > kMaxKeysPerBin);
  return !__syncthreads_or(full);
}

__device__ __forceinline__ void Selection::RankByBins(KeyWindow window, uint32_t split, uint32_t count) {
  const auto share = [this](uint32_t c) { return static_cast<uint32_t>(static_cast<uint64_t>(k_) * c / num_splits_); };
  const uint32_t rank_end = share(split + 1);
  for (uint32_t begin = share(split); begin < rank_end; begin += kRanksPerRound) {
    const uint32_t end = min(begin + kRanksPerRound, rank_end);
    __syncthreads();
    for (int i = thread_; i < kSharedKeys; i += kSelectThreads) shared_.keys[i] = 0;
    __syncthreads();
    for (uint32_t i = thread_; i < count; i += kSelectThreads) {
      const uint64_t key = Candidate(i);
      const uint32_t bin = window.BinOf(key), first = shared_.first_ranks[bin];
      if (first < begin || first >= end) continue;
      shared_.keys[first - begin + atomicSub(&shared_.histogram[bin], 1u) - 1] = key;
    }
    __syncthreads();
    for (int i = thread_; i < kSharedKeys; i += kSelectThreads) {
      const uint64_t key = shared_.keys[i];
      if (key == 0) continue;
      const uint32_t bin = window.BinOf(key), first = shared_.first_ranks[bin];
      const uint32_t past = bin == 0 ? count : shared_.first_ranks[bin - 1];
      uint32_t rank = first;
      for (uint32_t other = first; other < past; ++other) rank += shared_.keys[other - begin] > key ? 1 : 0;
      Write(key, rank);
    }
  }
}

__device__ __forceinline__ void Selection::Write(uint64_t key, uint32_t rank) const {
  if (rank < k_) StoreResult(shared_.results + rank, ScoreOf(key), PositionOf(key));
}

}  // namespace maxsim::cuda::selection
