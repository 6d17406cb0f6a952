// Selection by one thread block or a part of it, for a kernel whose last block selects: the best k of a few scores, in
// rank order.
//
// A score's distance from the best one, with its position behind, is a number that is the smaller the better it ranks,
// and no two are equal. Distances are counted into bins; those of a bin come to lie together, where its first rank
// says; and one's rank is that plus the smaller ones in its bin. Hardly any bin holds several where scores are spread
// like real ones; in the worst case, most scores nearly alike and some far above, all are compared with all: each
// thread then has six times as many steps as there are scores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/call/completion.cuh"
#include "kernels/cuda/select/key.cuh"
#include "kernels/plan/select.h"

namespace maxsim::cuda {

inline constexpr int kBlockSelectPositionBits = 11;
static_assert(kBlockSelectCandidates <= 1 << kBlockSelectPositionBits);
inline constexpr int kBlockSelectBinBits = 10;
inline constexpr int kBlockSelectBins = 1 << kBlockSelectBinBits;

struct BlockSelectSpace {
  uint64_t distances[kBlockSelectCandidates];  // bin by bin
  uint64_t ranked[kBlockSelectCandidates];     // those of the best k
  uint32_t ends[kBlockSelectBins];  // distances of a bin; then where its next one goes, and so where they end
  uint32_t highest[32];             // of each warp's scores
  uint32_t lowest[32];
  uint32_t sums[32];
};

// The scores of candidates thread, thread + kThreads, ... as OrderedBits; 0 past the last.
template <int kThreads>
class OwnScores {
 public:
  static constexpr int kMost = (kBlockSelectCandidates + kThreads - 1) / kThreads;

  __device__ __forceinline__ OwnScores(const float* scores, int count) {
    float read[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (Position(i) < count) read[i] = __ldcg(scores + Position(i));
    }
#pragma unroll
    for (int i = 0; i < kMost; ++i) bits_[i] = Position(i) < count ? OrderedBits(read[i]) : 0;
  }

  // Calls visit(bits, position) for each that is `lowest` or more.
  template <class Visit>
  __device__ __forceinline__ void ForEach(uint32_t lowest, Visit visit) const {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (bits_[i] >= lowest) visit(bits_[i], static_cast<uint32_t>(Position(i)));
    }
  }

 private:
  static __device__ __forceinline__ int Position(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }

  uint32_t bits_[kMost];
};

// Called by the block's first kThreads threads, which meet in sync(), with nothing of `space` in use. 1 <= k <= count
// <= kBlockSelectCandidates.
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
  // The k-th best is no lower than the lowest score, and, as every thread's best reaches the least of those, no lower
  // than that where there are k such threads: a few scores far below do not widen the bins.
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
  // From how many a bin has to where its first one goes. A thread has neighbouring bins.
  constexpr int kEach = (kBlockSelectBins + kThreads - 1) / kThreads;
  uint32_t sizes[kEach], before = 0, sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    sizes[i] = thread * kEach + i < kBlockSelectBins ? space.ends[thread * kEach + i] : 0;
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
  for (int i = 0; i < kEach; ++i) {
    if (thread * kEach + i < kBlockSelectBins) space.ends[thread * kEach + i] = before;
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
    if (begin >= k) break;  // and so are all behind
    int rank = begin;
    for (int other = begin; other < end; ++other) rank += space.distances[other] < distance ? 1 : 0;
    if (rank < k) space.ranked[rank] = distance;
  }
  sync();
  // Results that lie together go over the link together.
  for (int i = thread; i < k; i += kThreads) {
    const uint64_t distance = space.ranked[i];
    StoreResult(results + i, FromOrderedBits(highest - static_cast<uint32_t>(distance >> kBlockSelectPositionBits)),
                static_cast<uint32_t>(distance) & kPositions);
  }
}

}  // namespace maxsim::cuda
