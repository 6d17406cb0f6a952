// Selects the best k of a few scores, in rank order. The last thread block of a kernel, or a part of it, does this.
//
// A candidate's distance has, in the high bits, the difference between the best score and its own score (as
// OrderedBits), and in the low bits its position. The better a candidate ranks, the smaller its distance is, and no
// two distances are equal. Distances are counted into bins, and the distances of a bin are stored together, from the
// bin's first rank on. A candidate's rank is its bin's first rank plus the number of smaller distances in the bin.
// With real scores, hardly any bin has several distances. In the worst case, if most scores are nearly equal and a
// few are much higher, all distances are compared with all: each thread then makes six times as many comparisons as
// there are scores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/completion.cuh"
#include "kernels/cuda/select/key.cuh"
#include "kernels/plan/select.h"

namespace maxsim::cuda {

inline constexpr int kBlockSelectPositionBits = 11;
static_assert(kBlockSelectCandidates <= 1 << kBlockSelectPositionBits);
inline constexpr int kBlockSelectBinBits = 10;
inline constexpr int kBlockSelectBins = 1 << kBlockSelectBinBits;

struct BlockSelectSpace {
  uint64_t distances[kBlockSelectCandidates];  // bin by bin
  uint64_t ranked[kBlockSelectCandidates];     // the best k distances, in rank order
  // At first the number of distances in each bin; later the place for the bin's next distance. After the last distance
  // that is the end of the bin.
  uint32_t ends[kBlockSelectBins];
  uint32_t highest[32];  // of each warp's scores
  uint32_t lowest[32];   // of each warp's scores
  uint32_t sums[32];     // of each warp's bins
};

// A thread's scores as OrderedBits: those of candidates thread, thread + kThreads and so on, and 0 past the last
// candidate.
template <int kThreads>
class OwnScores {
 public:
  static constexpr int kMaxScores = (kBlockSelectCandidates + kThreads - 1) / kThreads;

  __device__ __forceinline__ OwnScores(const float* scores, int count) {
    float read[kMaxScores];
#pragma unroll
    for (int i = 0; i < kMaxScores; ++i) {
      if (Position(i) < count) read[i] = __ldcg(scores + Position(i));
    }
#pragma unroll
    for (int i = 0; i < kMaxScores; ++i) bits_[i] = Position(i) < count ? OrderedBits(read[i]) : 0;
  }

  // Calls visit(bits, position) for each of the thread's scores whose bits are `lowest` or more.
  template <class Visit>
  __device__ __forceinline__ void ForEach(uint32_t lowest, Visit visit) const {
#pragma unroll
    for (int i = 0; i < kMaxScores; ++i) {
      if (bits_[i] >= lowest) visit(bits_[i], static_cast<uint32_t>(Position(i)));
    }
  }

 private:
  static __device__ __forceinline__ int Position(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }

  uint32_t bits_[kMaxScores];
};

// Writes the best k of scores[0 .. count) to results[0 .. k) in rank order. Positions are indices in `scores`. The
// block's first kThreads threads must call it; sync() is a barrier for these threads. No part of `space` may be in use.
// Requires 1 <= k <= count <= kBlockSelectCandidates.
template <int kThreads, class Sync>
__device__ __forceinline__ void SelectInBlock(const float* scores, int count, int k, DeviceScored* results,
                                              BlockSelectSpace& space, Sync sync) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  constexpr int kWarps = kThreads / 32;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const OwnScores<kThreads> own(scores, count);
  for (int bin = thread; bin < kBlockSelectBins; bin += kThreads) space.ends[bin] = 0;
  uint32_t highest = 0, lowest = 0xffffffffu;
  own.ForEach(1, [&](uint32_t bits, uint32_t) {
    highest = max(highest, bits);
    lowest = min(lowest, bits);
  });
  // The k-th best score is at least the lowest score. If at least k threads have a score, the k-th best score is also
  // at least the lowest of the threads' best scores, since at least k scores reach that one. So a few scores that are
  // much lower do not make the bins wider.
  if (highest != 0 && k <= min(count, kThreads)) lowest = highest;
  highest = __reduce_max_sync(0xffffffffu, highest);
  lowest = __reduce_min_sync(0xffffffffu, lowest);
  if (lane == 0) {
    space.highest[warp] = highest;
    space.lowest[warp] = lowest;
  }
  sync();
  highest = __reduce_max_sync(0xffffffffu, space.highest[min(lane, kWarps - 1)]);
  lowest = __reduce_min_sync(0xffffffffu, space.lowest[min(lane, kWarps - 1)]);
  constexpr uint32_t kPositions = (1u << kBlockSelectPositionBits) - 1;
  const uint64_t farthest = static_cast<uint64_t>(highest - lowest) << kBlockSelectPositionBits | kPositions;
  const int shift = max(0, 64 - __clzll(static_cast<long long>(farthest)) - kBlockSelectBinBits);
  const auto distance_of = [highest](uint32_t bits, uint32_t position) {
    return static_cast<uint64_t>(highest - bits) << kBlockSelectPositionBits | position;
  };

  own.ForEach(lowest, [&](uint32_t bits, uint32_t position) {
    atomicAdd(&space.ends[distance_of(bits, position) >> shift], 1u);
  });
  sync();
  // A prefix sum turns the bins' sizes into the places of their first distances. A thread has neighbouring bins.
  constexpr int kBinsPerThread = (kBlockSelectBins + kThreads - 1) / kThreads;
  uint32_t sizes[kBinsPerThread], before = 0, sum = 0;
#pragma unroll
  for (int i = 0; i < kBinsPerThread; ++i) {
    sizes[i] = thread * kBinsPerThread + i < kBlockSelectBins ? space.ends[thread * kBinsPerThread + i] : 0;
    sum += sizes[i];
  }
  before = sum;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32_t below = __shfl_up_sync(0xffffffffu, before, distance);
    if (lane >= distance) before += below;
  }
  if (lane == 31) space.sums[warp] = before;
  sync();
  before = before - sum + __reduce_add_sync(0xffffffffu, lane < warp ? space.sums[lane] : 0u);
#pragma unroll
  for (int i = 0; i < kBinsPerThread; ++i) {
    if (thread * kBinsPerThread + i < kBlockSelectBins) space.ends[thread * kBinsPerThread + i] = before;
    before += sizes[i];
  }
  sync();
  own.ForEach(lowest, [&](uint32_t bits, uint32_t position) {
    const uint64_t distance = distance_of(bits, position);
    space.distances[atomicAdd(&space.ends[distance >> shift], 1u)] = distance;
  });
  sync();
  const int total = static_cast<int>(space.ends[kBlockSelectBins - 1]);
  for (int i = thread; i < total; i += kThreads) {
    const uint64_t distance = space.distances[i];
    const int bin = static_cast<int>(distance >> shift);
    const int begin = bin == 0 ? 0 : static_cast<int>(space.ends[bin - 1]), end = static_cast<int>(space.ends[bin]);
    if (begin >= k) break;  // the bins of later distances begin even higher
    int rank = begin;
    for (int other = begin; other < end; ++other) rank += space.distances[other] < distance ? 1 : 0;
    if (rank < k) space.ranked[rank] = distance;
  }
  sync();
  // Neighbouring threads write neighbouring results, which travel over the link together.
  for (int i = thread; i < k; i += kThreads) {
    const uint64_t distance = space.ranked[i];
    StoreResult(results + i, FromOrderedBits(highest - static_cast<uint32_t>(distance >> kBlockSelectPositionBits)),
                static_cast<uint32_t>(distance) & kPositions);
  }
}

}  // namespace maxsim::cuda
