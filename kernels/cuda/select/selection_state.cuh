// Constants, shared memory and windows of keys for the thread blocks of a large selection (selection.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/select/block_scan.cuh"
#include "kernels/cuda/select/completion.h"
#include "kernels/cuda/select/key.cuh"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda::selection {

static_assert(kSelectWarps == 32, "the lanes of one warp stand for the warps of a thread block");
static_assert(kSelectBins == 2 * kSelectThreads, "a thread reads two bins of a histogram");
inline constexpr int kBinBits = 11;
static_assert(kSelectBins == 1 << kBinBits && kSelectPasses * kBinBits >= 64);

inline constexpr int kSharedKeys = 4096;
// A histogram has several copies, one for each lane number modulo kHistogramCopies, because a warp's atomic operations
// on the same address are done one by one.
inline constexpr int kHistogramCopies = 4;
static_assert(kHistogramCopies * kSelectBins * sizeof(uint32_t) <= kSharedKeys * sizeof(uint64_t));
// If a bin has more keys than this, ranking within bins would be slow, so every key is ranked against all others
// instead.
inline constexpr int kMaxKeysPerBin = 512;
// RankByBins takes the bins that begin within this many ranks together. The last of these bins may end up to
// kMaxKeysPerBin ranks beyond that range, and its keys must fit in shared memory too.
inline constexpr int kRanksPerRound = kSharedKeys - kMaxKeysPerBin;
// Number of keys that a warp ranks together against all others.
inline constexpr int kKeysPerWarp = 4;
// A thread block polls this many times, 0.7 us each, before it takes a split that is not its own.
inline constexpr int kPollsBeforeHelping = 16;
// Number of buckets whose maxima a thread reads.
inline constexpr int kBucketsPerThread = kMaxSelectBuckets / kSelectThreads;

struct Shared {
  uint64_t keys[kSharedKeys];
  uint32_t histogram[kSelectBins];
  uint32_t first_ranks[kSelectBins];  // the rank that each bin begins with
  ScanSpace scan;
  ScanSpace second_scan;  // lets two scans follow each other without a barrier between them
  SelectQuery query;      // lies here because registers are scarce
  uint64_t* lists;
  DeviceScored* results;
  CallTimes* times;
  uint32_t list_begins[kMaxSelectSplits + 1];
  int32_t splits[kMaxSelectSplits];  // the splits of this thread block
  int32_t claim;                     // what thread 0 tells the others: a split, or yes (1) or no (0)
  uint32_t list_size;
  uint32_t bin;     // result of FindBin: the bin
  uint32_t above;   // result of FindBin: number of keys in the bins above it
  uint32_t in_bin;  // result of FindBin: number of keys in it
};

// The `size` keys from `low` up, in bins of 2^shift keys.
struct KeyWindow {
  uint64_t low;
  uint64_t size;
  int shift;

  // Returns the window of the keys low .. high, with bins as narrow as kSelectBins bins allow.
  static __device__ __forceinline__ KeyWindow Over(uint64_t low, uint64_t high) {
    return {low, high - low + 1, max(0, 64 - __clzll(static_cast<long long>(high - low)) - kBinBits)};
  }
  __device__ __forceinline__ bool Holds(uint64_t key) const { return key - low < size; }
  __device__ __forceinline__ uint32_t BinOf(uint64_t key) const { return static_cast<uint32_t>((key - low) >> shift); }
  // Returns the window of the keys of one bin.
  __device__ __forceinline__ KeyWindow Narrowed(uint32_t bin) const {
    return {low + (static_cast<uint64_t>(bin) << shift), uint64_t{1} << shift, max(0, shift - kBinBits)};
  }
};

// The highest and the lowest of the scores that a thread has read.
struct ScanResult {
  float highest = -std::numeric_limits<float>::infinity();
  uint32_t position = 0xffffffffu;  // of the first score that is the highest; 0xffffffff: no score was read
  float lowest = std::numeric_limits<float>::infinity();

  __device__ __forceinline__ bool any() const { return position != 0xffffffffu; }
  __device__ __forceinline__ uint64_t Key() const { return any() ? MakeKey(highest, position) : 0; }
};

}  // namespace maxsim::cuda::selection
