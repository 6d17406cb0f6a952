// A kernel that only runs Hopper's wgmma at its full rate. Like the scoring kernels it has two warpgroups per
// multiprocessor, takes operand a from registers and b from shared memory, and adds into two sets of sums.
#include "bench/kernels/gpu_limit_kernels.h"
#include "kernels/cuda/score/hopper_common/ptx/wgmma.cuh"

namespace maxsim::bench {
namespace {

constexpr int kWgmmaThreads = 256;
constexpr int kTokens = 128;
constexpr int kTileWords = kTokens * 32;  // 32-bit words; rows of 128 bytes, swizzled
constexpr int kTiles = 2;
constexpr int kSets = 2;
constexpr int kStepsPerTile = 4;  // k-steps of 32 bytes
constexpr int kSums = kTokens / 2;

// Keeps the sums in their registers at this place. Otherwise ptxas would move them while wgmma runs, and would wait
// for wgmma to end.
__device__ __forceinline__ void Hold(float (&sums)[kSums]) {
#pragma unroll
  for (int n = 0; n < kSums; ++n) asm volatile("" : "+f"(sums[n])::"memory");
}
__device__ __forceinline__ void Hold(int (&sums)[kSums]) {
#pragma unroll
  for (int n = 0; n < kSums; ++n) asm volatile("" : "+r"(sums[n])::"memory");
}

// Returns random bits that real data could have: any bytes for I8, otherwise two numbers of magnitude 0.5 to 1 with
// random mantissas.
template <ScalarType kType>
__device__ __forceinline__ uint32_t Operand(uint32_t index) {
  uint32_t bits = index * 0x9e3779b9u;
  bits = (bits ^ (bits >> 15)) * 0x85ebca6bu;
  bits ^= bits >> 13;
  if (kType == ScalarType::kF16) return (bits & 0x83ff83ffu) | 0x38003800u;
  if (kType == ScalarType::kBF16) return (bits & 0x807f807fu) | 0x3f003f00u;
  return bits;
}

template <ScalarType kType, class Sum>
__global__ void __launch_bounds__(kWgmmaThreads, 1) MultiplyByWarpgroup(int iterations, float* sink) {
  __shared__ alignas(1024) uint32_t tiles[kTiles * kTileWords];
  for (int i = threadIdx.x; i < kTiles * kTileWords; i += kWgmmaThreads) tiles[i] = Operand<kType>(i);
  uint32_t a[kTiles * kStepsPerTile][4];
#pragma unroll
  for (int s = 0; s < kTiles * kStepsPerTile; ++s) {
#pragma unroll
    for (int n = 0; n < 4; ++n) a[s][n] = Operand<kType>((threadIdx.x * 64 + s * 4 + n) ^ 0x5a5a0000u);
  }
  // With this fence wgmma can read the values that ordinary stores wrote.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t b = cuda::sm90::DescribeOperand(static_cast<uint32_t>(__cvta_generic_to_shared(tiles)));
  Sum sums[kSets][kSums] = {};
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int set = 0; set < kSets; ++set) Hold(sums[set]);
    cuda::sm90::FenceOperands();
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
#pragma unroll
      for (int s = 0; s < kTiles * kStepsPerTile; ++s) {
        cuda::sm90::MultiplyAdd<kType>(sums[set], a[s],
                                       b + s / kStepsPerTile * (kTileWords * 4 / 16) + s % kStepsPerTile * 2, true);
      }
    }
    cuda::sm90::CommitGroup();
    cuda::sm90::WaitGroups<0>();
#pragma unroll
    for (int set = 0; set < kSets; ++set) Hold(sums[set]);
  }
  Sum total = 0;
#pragma unroll
  for (int n = 0; n < kSums; ++n) total += sums[0][n] + sums[1][n];
  if (total == static_cast<Sum>(12345)) *sink = static_cast<float>(total);
}

}  // namespace

cudaError_t LaunchWgmma(ScalarType type, int iterations, int num_sms, float* sink, double* operations,
                        cudaStream_t stream) {
  const double step_operations = 2.0 * 64 * kTokens * (type == ScalarType::kI8 ? 32 : 16);
  *operations = step_operations * kTiles * kStepsPerTile * kSets * (kWgmmaThreads / 128.0) * num_sms * iterations;
  switch (type) {
    case ScalarType::kF16:
      MultiplyByWarpgroup<ScalarType::kF16, float><<<num_sms, kWgmmaThreads, 0, stream>>>(iterations, sink);
      return cudaGetLastError();
    case ScalarType::kBF16:
      MultiplyByWarpgroup<ScalarType::kBF16, float><<<num_sms, kWgmmaThreads, 0, stream>>>(iterations, sink);
      return cudaGetLastError();
    case ScalarType::kI8:
      MultiplyByWarpgroup<ScalarType::kI8, int><<<num_sms, kWgmmaThreads, 0, stream>>>(iterations, sink);
      return cudaGetLastError();
    case ScalarType::kF32:
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace maxsim::bench
