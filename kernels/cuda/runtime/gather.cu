#include "kernels/cuda/runtime/gather.h"

#include <algorithm>

#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 1024;
// Loads that a thread has in flight at once. A round trip over the link takes about 1.5 us, in which the link could
// carry 80 KB, so a few thread blocks with this many loads per thread keep it full.
constexpr int kLoads = static_cast<int>(kGatherCopyBytes / (kThreads * sizeof(uint4)));

// One thread block makes each copy, and starts all loads of the copy before its first store.
__global__ void __launch_bounds__(kThreads, 1) Gather(const GatherCopy* copies, int64_t num_copies) {
  for (int64_t i = blockIdx.x; i < num_copies; i += gridDim.x) {
    const GatherCopy copy = copies[i];
    const uint4* from = static_cast<const uint4*>(copy.from);
    uint4* to = static_cast<uint4*>(copy.to);
    const int count = static_cast<int>(copy.bytes / static_cast<int64_t>(sizeof(uint4)));
    uint4 values[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = load * kThreads + static_cast<int>(threadIdx.x);
      if (at < count) values[load] = __ldcs(from + at);
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int at = load * kThreads + static_cast<int>(threadIdx.x);
      if (at < count) to[at] = values[load];
    }
  }
}

}  // namespace

cudaError_t PrepareGather() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, Gather);
}

cudaError_t LaunchGather(const GatherCopy* copies, int64_t num_copies, int num_blocks, cudaStream_t stream) {
  if (num_copies == 0) return cudaSuccess;
  const int blocks = static_cast<int>(std::min<int64_t>(num_copies, num_blocks));
  return LaunchKernel(Gather, blocks, kThreads, 0, stream, copies, num_copies);
}

}  // namespace maxsim::cuda
