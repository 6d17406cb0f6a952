// The lower bound of the k-th key in a large selection (selection.cuh), from the buckets' maxima or from histograms.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/selection.cuh"

namespace maxsim::cuda::selection {

__device__ __forceinline__ bool Selection::FindBin(const uint32_t* histogram, uint32_t need) {
  const uint32_t high = kSelectBins - 1 - 2 * thread_;
  const uint32_t count_high = histogram[high], count_low = histogram[high - 1];
  const uint32_t above = SumBefore(count_high + count_low, shared_.scan);
  const bool here = above < need && need <= above + count_high + count_low;
  if (here) {
    const bool in_high = need <= above + count_high;
    shared_.bin = in_high ? high : high - 1;
    shared_.above = in_high ? above : above + count_high;
    shared_.in_bin = in_high ? count_high : count_low;
  }
  return __syncthreads_or(here);
}

__device__ __forceinline__ uint64_t Selection::FindBoundByBuckets() {
  const uint32_t num_buckets = num_splits_ * query_.buckets;
  uint64_t maxima[kBucketsPerThread];
  uint32_t low = 0xffffffffu, high = 0;
#pragma unroll
  for (int r = 0; r < kBucketsPerThread; ++r) {
    const uint32_t bucket = thread_ + r * kSelectThreads;
    maxima[r] = bucket < num_buckets ? __ldcg(&workspace_.maxima[bucket]) : 0;
    if (maxima[r] == 0) continue;
    low = min(low, static_cast<uint32_t>(maxima[r] >> 32));
    high = max(high, static_cast<uint32_t>(maxima[r] >> 32));
  }
  const uint2 extremes = Extremes(low, high, shared_.second_scan);
  highest_score_ = extremes.y;
  KeyWindow window = KeyWindow::Over(static_cast<uint64_t>(extremes.x) << 32, Highest());
  const uint32_t slack = max(k_ / 8, 4u);
  uint32_t need = k_;
  while (true) {
    __syncthreads();
    shared_.histogram[thread_] = shared_.histogram[thread_ + kSelectThreads] = 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kBucketsPerThread; ++r) {
      if (maxima[r] != 0 && window.Holds(maxima[r])) atomicAdd(&shared_.histogram[window.BinOf(maxima[r])], 1u);
    }
    __syncthreads();
    if (!FindBin(shared_.histogram, need)) return 1;
    need -= shared_.above;
    const uint64_t bound = window.Narrowed(shared_.bin).low;
    if (shared_.in_bin - need <= slack || window.shift == 0) return bound;
    window = window.Narrowed(shared_.bin);
  }
}

__device__ __forceinline__ KeyWindow Selection::WholeWindow() {
  uint32_t low = 0xffffffffu, high = 0;
  if (thread_ < num_splits_) {
    low = __ldcg(&workspace_.lowest[thread_]);
    high = __ldcg(&workspace_.highest[thread_]);
  }
  const uint2 extremes = Extremes(low, high, shared_.second_scan);
  highest_score_ = extremes.y;
  return KeyWindow::Over(static_cast<uint64_t>(extremes.x) << 32, Highest());
}

__device__ __forceinline__ uint64_t Selection::NarrowByHistograms(KeyWindow window) {
  const uint32_t room = num_splits_ * static_cast<uint32_t>(query_.list_keys);
  // The window is narrow enough if it leaves this many keys or fewer. Fewer keys would be ranked faster, but another
  // pass takes longer than ranking the keys of one more bin.
  const uint32_t enough = min(room, k_ + k_ / 4 + 1024);
  uint32_t* copies = reinterpret_cast<uint32_t*>(shared_.keys);
  uint32_t above = 0;  // keys above the window
  for (int pass = 0; pass < kSelectPasses; ++pass) {
    __syncthreads();
    for (int i = thread_; i < kHistogramCopies * kSelectBins; i += kSelectThreads) copies[i] = 0;
    __syncthreads();
    for (uint32_t i = 0; i < num_own_splits_; ++i) {
      ForEachKey<2>(shared_.splits[i], [&](uint64_t key) {
        if (window.Holds(key)) atomicAdd(&copies[window.BinOf(key) * kHistogramCopies + lane_ % kHistogramCopies], 1u);
      });
    }
    __syncthreads();
    for (int bin = thread_; bin < kSelectBins; bin += kSelectThreads) {
      uint32_t count = 0;
#pragma unroll
      for (int copy = 0; copy < kHistogramCopies; ++copy) count += copies[bin * kHistogramCopies + copy];
      if (count != 0) atomicAdd(&workspace_.histograms[pass][bin], count);
    }
    if (thread_ == 0) atomicMax(&workspace_.num_histograms, static_cast<uint32_t>(pass + 1));
    Arrive(num_own_splits_);
    WaitForPhase<false>();
    shared_.histogram[thread_] = __ldcg(&workspace_.histograms[pass][thread_]);
    shared_.histogram[thread_ + kSelectThreads] = __ldcg(&workspace_.histograms[pass][thread_ + kSelectThreads]);
    __syncthreads();
    FindBin(shared_.histogram, k_ - above);  // the window holds k - above of the k best keys
    above += shared_.above;
    const bool done = above + shared_.in_bin <= enough || window.shift == 0;
    window = window.Narrowed(shared_.bin);
    if (done) break;
  }
  return window.low;
}

__device__ __forceinline__ uint64_t Selection::Highest() const {
  return static_cast<uint64_t>(highest_score_) << 32 | 0xffffffffu;
}

}  // namespace maxsim::cuda::selection
