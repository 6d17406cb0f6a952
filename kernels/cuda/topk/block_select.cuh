// Selection by one thread block, for a kernel whose last block selects: the best k of a few scores, in rank order.
//
// A score's distance from the best one, with its position behind, is a number that is the smaller the better it ranks,
// and no two are equal. Distances are counted into bins; those of a bin come to lie together, where its first rank
// says; and one's rank is that plus the smaller ones in its bin. Hardly any bin holds several where scores are spread
// like real ones; in the worst case, most scores alike and a few far away, all are compared with all.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/completion.cuh"
#include "kernels/cuda/topk/block_scan.cuh"
#include "kernels/cuda/topk/key.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda {

inline constexpr int kBlockSelectPositionBits = 11;
inline constexpr int kBlockSelectBinBits = 11;
inline constexpr int kBlockSelectBins = 1 << kBlockSelectBinBits;
static_assert(kBlockSelectCandidates <= 1 << kBlockSelectPositionBits);

struct BlockSelectSpace {
  uint64_t distances[kBlockSelectCandidates];  // bin by bin
  uint32_t scores[kBlockSelectCandidates];     // as OrderedBits, by position
  uint32_t ends[kBlockSelectBins];  // distances of a bin; then where its next one goes, and so where they end
  ScanSpace scan;
  ScanSpace scan2;
};

// Called by all threads of the block, a multiple of 32 and at most 1,024, with nothing of `space` in use. 1 <= k <=
// count <= kBlockSelectCandidates.
__device__ __forceinline__ void SelectInBlock(const float* scores, int count, int k, DeviceScored* results,
                                              BlockSelectSpace& space) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, last_warp = threads / 32 - 1;
  uint32_t highest = 0, lowest = 0xffffffffu;  // of the thread
  for (int i = thread; i < count; i += threads) {
    const uint32_t bits = OrderedBits(__ldcg(scores + i));
    space.scores[i] = bits;
    highest = max(highest, bits);
    lowest = min(lowest, bits);
  }
  for (int bin = thread; bin < kBlockSelectBins; bin += threads) space.ends[bin] = 0;
  // The k-th best is no lower than the lowest score, and, as every thread's best reaches the least of those, no lower
  // than that where there are k such threads: a few scores far below do not widen the bins.
  if (highest != 0 && k <= min(count, threads)) lowest = highest;
  highest = __reduce_max_sync(kAllLanes, highest);
  lowest = __reduce_min_sync(kAllLanes, lowest);
  if (lane == 0) {
    space.scan.first[warp] = highest;
    space.scan.second[warp] = lowest;
  }
  __syncthreads();
  highest = __reduce_max_sync(kAllLanes, space.scan.first[min(lane, last_warp)]);
  lowest = __reduce_min_sync(kAllLanes, space.scan.second[min(lane, last_warp)]);
  const uint64_t farthest =
      static_cast<uint64_t>(highest - lowest) << kBlockSelectPositionBits | ((1u << kBlockSelectPositionBits) - 1);
  const int shift = max(0, 64 - __clzll(static_cast<long long>(farthest)) - kBlockSelectBinBits);
  const auto distance_of = [highest](uint32_t bits, int position) {
    return static_cast<uint64_t>(highest - bits) << kBlockSelectPositionBits | static_cast<uint32_t>(position);
  };

  for (int i = thread; i < count; i += threads) {
    if (space.scores[i] >= lowest) atomicAdd(&space.ends[distance_of(space.scores[i], i) >> shift], 1u);
  }
  __syncthreads();
  // From how many a bin has to where its first one goes. A thread has neighbouring bins.
  const int each = (kBlockSelectBins + threads - 1) / threads;
  const int first_bin = min(thread * each, kBlockSelectBins), end_bin = min(first_bin + each, kBlockSelectBins);
  uint32_t sum = 0;
  for (int bin = first_bin; bin < end_bin; ++bin) sum += space.ends[bin];
  uint32_t before = sum;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const uint32_t below = __shfl_up_sync(kAllLanes, before, distance);
    if (lane >= distance) before += below;
  }
  if (lane == 31) space.scan2.first[warp] = before;
  __syncthreads();
  before = before - sum + __reduce_add_sync(kAllLanes, lane < warp ? space.scan2.first[lane] : 0u);
  for (int bin = first_bin; bin < end_bin; ++bin) {
    const uint32_t size = space.ends[bin];
    space.ends[bin] = before;
    before += size;
  }
  __syncthreads();
  for (int i = thread; i < count; i += threads) {
    if (space.scores[i] < lowest) continue;
    const uint64_t distance = distance_of(space.scores[i], i);
    space.distances[atomicAdd(&space.ends[distance >> shift], 1u)] = distance;
  }
  __syncthreads();
  const int total = static_cast<int>(space.ends[kBlockSelectBins - 1]);
  for (int i = thread; i < total; i += threads) {
    const uint64_t distance = space.distances[i];
    const int bin = static_cast<int>(distance >> shift);
    const int begin = bin == 0 ? 0 : static_cast<int>(space.ends[bin - 1]), end = static_cast<int>(space.ends[bin]);
    if (begin >= k) break;  // and so are all behind
    int rank = begin;
    for (int other = begin; other < end; ++other) rank += space.distances[other] < distance ? 1 : 0;
    if (rank >= k) continue;
    const uint32_t bits = highest - static_cast<uint32_t>(distance >> kBlockSelectPositionBits);
    StoreResult(results + rank, FromOrderedBits(bits),
                static_cast<uint32_t>(distance) & ((1u << kBlockSelectPositionBits) - 1));
  }
}

}  // namespace maxsim::cuda
