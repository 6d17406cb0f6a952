// The scan of a large selection (selection.cuh): reading the scores of a split and publishing the maxima of its
// buckets.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/selection.cuh"

namespace maxsim::cuda::selection {

__device__ __forceinline__ uint32_t Selection::NumScores() const {
  return static_cast<uint32_t>(query_.num_candidates);
}

__device__ __forceinline__ uint32_t Selection::FirstQuad(uint32_t split) const {
  return (warp_ * num_splits_ + split) * 32 + lane_;
}

__device__ __forceinline__ uint32_t Selection::QuadStride() const { return num_splits_ * kSelectThreads; }

__device__ __forceinline__ bool Selection::HasLastScore(uint32_t split) const {
  return split == 0 && thread_ < NumScores() % 4;
}

__device__ __forceinline__ ScanResult Selection::Scan(uint32_t split) const {
  return query_.buckets > 0 ? ScanScores<false>(split) : ScanScores<true>(split);
}

template <bool kLowest>
__device__ __forceinline__ ScanResult Selection::ScanScores(uint32_t split) const {
  ScanResult result;
  const auto look = [&result](const float4& quad, uint32_t i) {
    const float highest = fmaxf(fmaxf(quad.x, quad.y), fmaxf(quad.z, quad.w));
    if (highest > result.highest) {
      result.highest = highest;
      result.position = 4 * i + (quad.x == highest ? 0 : quad.y == highest ? 1 : quad.z == highest ? 2 : 3);
    }
    if (kLowest) result.lowest = fminf(result.lowest, fminf(fminf(quad.x, quad.y), fminf(quad.z, quad.w)));
  };
  const float4* quads = reinterpret_cast<const float4*>(scores_);
  const uint32_t num_quads = NumScores() / 4, stride = QuadStride();
  constexpr int kLoads = 4;
  uint32_t i = FirstQuad(split);
  for (; i + (kLoads - 1) * stride < num_quads; i += kLoads * stride) {
    float4 quad[kLoads];
#pragma unroll
    for (int r = 0; r < kLoads; ++r) quad[r] = quads[i + r * stride];
#pragma unroll
    for (int r = 0; r < kLoads; ++r) look(quad[r], i + r * stride);
  }
  float4 quad[kLoads - 1];
#pragma unroll
  for (int r = 0; r < kLoads - 1; ++r) {
    if (i + r * stride < num_quads) quad[r] = quads[i + r * stride];
  }
#pragma unroll
  for (int r = 0; r < kLoads - 1; ++r) {
    if (i + r * stride < num_quads) look(quad[r], i + r * stride);
  }
  if (HasLastScore(split)) {
    const uint32_t position = num_quads * 4 + thread_;
    const float score = scores_[position];
    if (score > result.highest) {
      result.highest = score;
      result.position = position;
    }
    if (kLowest) result.lowest = fminf(result.lowest, score);
  }
  return result;
}

template <int kLoads, class Visit>
__device__ __forceinline__ void Selection::ForEachKey(uint32_t split, Visit visit) const {
  const float4* quads = reinterpret_cast<const float4*>(scores_);
  const uint32_t num_quads = NumScores() / 4, stride = QuadStride();
  for (uint32_t i = FirstQuad(split); i < num_quads; i += kLoads * stride) {
    float4 quad[kLoads];
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      if (i + r * stride < num_quads) quad[r] = quads[i + r * stride];
    }
#pragma unroll
    for (int r = 0; r < kLoads; ++r) {
      const uint32_t position = 4 * (i + r * stride);
      if (i + r * stride >= num_quads) continue;
      visit(MakeKey(quad[r].x, position));
      visit(MakeKey(quad[r].y, position + 1));
      visit(MakeKey(quad[r].z, position + 2));
      visit(MakeKey(quad[r].w, position + 3));
    }
  }
  if (HasLastScore(split)) {
    const uint32_t position = num_quads * 4 + thread_;
    visit(MakeKey(scores_[position], position));
  }
}

__device__ __forceinline__ void Selection::PublishScan(uint32_t split, const ScanResult& result) {
  if (query_.buckets == 0) {
    const uint32_t low = result.any() ? OrderedBits(result.lowest) : 0xffffffffu;
    const uint32_t high = result.any() ? OrderedBits(result.highest) : 0;
    const uint2 extremes = Extremes(low, high, shared_.scan);
    if (thread_ == 0) {
      __stcg(&workspace_.lowest[split], extremes.x);
      __stcg(&workspace_.highest[split], extremes.y);
    }
    return;
  }
  // A bucket consists of the scores read by threads whose numbers are equal modulo `buckets`. Threads t .. t + factor -
  // 1 take the maximum of one bucket.
  const auto place = [](uint32_t thread) { return thread + thread / 32; };  // avoids bank conflicts
  shared_.keys[place(thread_)] = result.Key();
  __syncthreads();
  const uint32_t buckets = query_.buckets, factor = kSelectThreads / buckets;
  uint64_t maximum = shared_.keys[place(thread_ % factor * buckets + thread_ / factor)];
  for (uint32_t distance = factor / 2; distance > 0; distance /= 2) {
    maximum = max(maximum, __shfl_xor_sync(kAllLanes, maximum, distance));
  }
  if (thread_ % factor == 0) __stcg(&workspace_.maxima[split * buckets + thread_ / factor], maximum);
}

}  // namespace maxsim::cuda::selection
