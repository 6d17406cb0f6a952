#include "kernels/cuda/call/launch/copy_input.h"

#include <cstdint>

#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/select/completion.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 512;

// Prefetches the offset's cache line into the L2 cache.
__device__ __forceinline__ void Prefetch(const int64_t* offset) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(offset));
}

// Each thread copies 16 bytes.
__global__ void __launch_bounds__(kThreads) CopyInput(const __grid_constant__ InputCopy copy, CallTimes* times) {
  LetNextGridStart();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i == 0) NoteTime(&times->input_begin);
  if (i < copy.bytes / sizeof(uint4)) {
    const uint4 piece = static_cast<const uint4*>(copy.pinned)[i];
    static_cast<uint4*>(copy.device)[i] = piece;
    // For bytes before the lists of ordinals, this unsigned difference wraps round and exceeds num_ordinals, so that
    // nothing is prefetched.
    const uint32_t first = i * 4 - static_cast<uint32_t>(copy.ordinals / sizeof(uint32_t));
    if (copy.offsets != nullptr) {
      if (first < copy.num_ordinals) Prefetch(copy.offsets + piece.x);
      if (first + 1 < copy.num_ordinals) Prefetch(copy.offsets + piece.y);
      if (first + 2 < copy.num_ordinals) Prefetch(copy.offsets + piece.z);
      if (first + 3 < copy.num_ordinals) Prefetch(copy.offsets + piece.w);
    }
  }
  if (i == 0) NoteTime(&times->input_end);
}

}  // namespace

cudaError_t PrepareCopyInput() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, CopyInput);
}

cudaError_t LaunchCopyInput(const InputCopy& copy, CallTimes* times, cudaStream_t stream) {
  const uint32_t count = static_cast<uint32_t>(copy.bytes / sizeof(uint4));
  return LaunchKernel(CopyInput, (count + kThreads - 1) / kThreads, kThreads, 0, stream, copy, times);
}

}  // namespace maxsim::cuda
