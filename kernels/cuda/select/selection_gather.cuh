// The lists of candidates that reach the bound in a large selection (selection.cuh).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/selection.cuh"

namespace maxsim::cuda::selection {

__device__ __forceinline__ void Selection::Gather(uint64_t bound) {
  for (uint32_t i = 0; i < num_own_splits_; ++i) {
    const uint32_t split = shared_.splits[i];
    __syncthreads();
    if (thread_ == 0) shared_.list_size = 0;
    __syncthreads();
    // own_maximum_ tells most threads that none of the scores that they read of the block's first split reaches the
    // bound, so few have to read them again.
    if (i > 0 || own_maximum_ >= bound) {
      ForEachKey<4>(split, [&](uint64_t key) {
        if (key < bound) return;
        const uint32_t slot = atomicAdd(&shared_.list_size, 1u);
        if (slot >= static_cast<uint32_t>(query_.list_keys)) return;
        __stcg(shared_.lists + static_cast<int64_t>(split) * query_.list_keys + slot, key);
      });
    }
    __syncthreads();
    if (thread_ == 0) __stcg(&workspace_.list_sizes[split], shared_.list_size);
  }
}

__device__ __forceinline__ bool Selection::LookUpLists() {
  const uint32_t size = thread_ < num_splits_ ? __ldcg(&workspace_.list_sizes[thread_]) : 0;
  const uint32_t before = SumBefore(size, shared_.second_scan);
  if (thread_ <= num_splits_) shared_.list_begins[thread_] = before;
  num_lists_ = num_splits_;
  return !__syncthreads_or(size > static_cast<uint32_t>(query_.list_keys));
}

__device__ __forceinline__ void Selection::GatherInOneList(uint64_t bound) {
  for (uint32_t i = 0; i < num_own_splits_; ++i) {
    ForEachKey<2>(shared_.splits[i], [&](uint64_t key) {
      if (key >= bound) __stcg(shared_.lists + atomicAdd(&workspace_.num_keys, 1u), key);
    });
  }
}

__device__ __forceinline__ uint64_t Selection::Candidate(uint32_t i) const {
  uint32_t list = 0;
  for (uint32_t past = num_lists_; past - list > 1;) {
    const uint32_t middle = (list + past) / 2;
    (shared_.list_begins[middle] <= i ? list : past) = middle;
  }
  return __ldcg(shared_.lists + static_cast<int64_t>(list) * query_.list_keys + (i - shared_.list_begins[list]));
}

}  // namespace maxsim::cuda::selection
