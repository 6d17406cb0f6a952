#include "kernels/cuda/copy_input.h"

#include <cstdint>

#include "kernels/cuda/completion.cuh"
#include "kernels/cuda/grid_order.cuh"
#include "kernels/cuda/launch.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 512;

__global__ void __launch_bounds__(kThreads)
    CopyInput(const uint4* pinned, uint4* device, uint32_t count, CallRecord* record) {
  LetNextGridStart();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i == 0) record->input_begin = GlobalNanoseconds();
  if (i < count) device[i] = pinned[i];
  if (i == 0) record->input_end = GlobalNanoseconds();
}

}  // namespace

cudaError_t PrepareCopyInput() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, CopyInput);
}

cudaError_t LaunchCopyInput(const void* pinned, void* device, size_t bytes, CallRecord* record, cudaStream_t stream) {
  const uint32_t count = static_cast<uint32_t>(bytes / sizeof(uint4));
  return LaunchKernel(CopyInput, (count + kThreads - 1) / kThreads, kThreads, 0, stream,
                      static_cast<const uint4*>(pinned), static_cast<uint4*>(device), count, record);
}

}  // namespace maxsim::cuda
