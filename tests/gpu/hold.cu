#include "tests/gpu/hold.h"

namespace maxsim::test {
namespace {

__global__ void Hold(volatile uint32_t* holding, const volatile uint32_t* release, uint64_t longest_ns) {
  if (threadIdx.x != 0) return;
  holding[blockIdx.x] = 1;
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*release == 0 && now - begin < longest_ns);
}

}  // namespace

cudaError_t LaunchHold(int num_blocks, int shared_bytes, uint32_t* holding, const uint32_t* release,
                       cudaStream_t stream) {
  const cudaError_t error = cudaFuncSetAttribute(Hold, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return error;
  constexpr uint64_t kLongestNs = 10'000'000'000;
  Hold<<<num_blocks, 32, shared_bytes, stream>>>(holding, release, kLongestNs);
  return cudaGetLastError();
}

}  // namespace maxsim::test
