// Lets the thread blocks of a large selection (selection.cuh) wait for one another. A phase is done when all splits
// have finished it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/select/selection.cuh"

namespace maxsim::cuda::selection {

__device__ __forceinline__ void Selection::Arrive(uint32_t count) {
  __syncthreads();
  if (num_splits_ == 1 || thread_ != 0) return;
  __threadfence();
  atomicAdd(&workspace_.num_done, count);
}

__device__ __forceinline__ uint32_t Selection::NumDone() const {
  uint32_t done;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(&workspace_.num_done) : "memory");
  return done;
}

template <bool kHelp>
__device__ __forceinline__ void Selection::WaitForPhase() {
  awaited_done_ += num_splits_;
  if (num_splits_ == 1) return;  // the barrier of Arrive was enough
  while (true) {
    if (thread_ == 0) shared_.claim = kHelp ? WaitOrClaim() : WaitOnly();
    __syncthreads();
    const int32_t split = shared_.claim;
    __syncthreads();
    if (split < 0) return;
    if constexpr (kHelp) ScanForAnother(split);
  }
}

__device__ __forceinline__ int32_t Selection::WaitOnly() const {
  while (NumDone() < awaited_done_) {
  }
  return -1;
}

__device__ __forceinline__ int32_t Selection::WaitOrClaim() const {
  while (true) {
    for (int poll = 0; poll < kPollsBeforeHelping; ++poll) {
      if (NumDone() >= awaited_done_) return -1;
    }
    for (uint32_t i = 1; i < num_splits_; ++i) {
      const uint32_t split = (blockIdx.x + i) % num_splits_;
      if (__ldcg(&workspace_.claimed[split]) == 0 && atomicExch(&workspace_.claimed[split], 1u) == 0) {
        return static_cast<int32_t>(split);
      }
    }
  }
}

__device__ __forceinline__ void Selection::ScanForAnother(int32_t split) {
  if (thread_ == 0) shared_.splits[num_own_splits_] = split;
  ++num_own_splits_;
  PublishScan(split, Scan(split));
  Arrive(1);
}

__device__ __forceinline__ void Selection::Depart() {
  if (thread_ != 0) return;
  __threadfence();
  departed_before_ = atomicAdd(&workspace_.num_left, 1u);
}

__device__ __forceinline__ void Selection::CleanUp() {
  __syncthreads();
  if (thread_ == 0) {
    shared_.claim = departed_before_ + 1 == num_splits_ ? 1 : 0;
    __threadfence();
  }
  __syncthreads();
  if (shared_.claim == 0) return;
  const uint32_t used = __ldcg(&workspace_.num_histograms);
  for (uint32_t pass = 0; pass < used; ++pass) {
    for (int bin = thread_; bin < kSelectBins; bin += kSelectThreads) workspace_.histograms[pass][bin] = 0;
  }
  if (thread_ < num_splits_) workspace_.claimed[thread_] = 0;
  __syncthreads();
  if (thread_ == 0) {
    workspace_.num_done = workspace_.num_left = workspace_.num_keys = workspace_.num_histograms = 0;
    if (blockIdx.y == 0 && shared_.times != nullptr) NoteTime(&shared_.times->results_end);
  }
}

}  // namespace maxsim::cuda::selection
