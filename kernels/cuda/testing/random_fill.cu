#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/testing/random_fill.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4096;

// SplitMix64's finaliser.
__device__ __forceinline__ uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

template <class T>
__device__ __forceinline__ T Round(float value) {
  return static_cast<T>(value);
}

template <class T>
__global__ void __launch_bounds__(kThreads) Fill(T* elements, int64_t count, uint64_t seed, float scale) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{kBlocks} * kThreads) {
    const uint32_t bits = static_cast<uint32_t>(Mix(seed ^ Mix(static_cast<uint64_t>(i))) >> 40);  // 24 bits
    elements[i] = Round<T>((static_cast<float>(bits) * 0x1p-23f - 1.0f) * scale);
  }
}

// Writes eight elements per word. The address `elements` must be a multiple of 8.
__global__ void __launch_bounds__(kThreads) FillI8(int8_t* elements, int64_t count, uint64_t seed) {
  for (int64_t i = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * 8; i < count;
       i += int64_t{kBlocks} * kThreads * 8) {
    const uint64_t bits = Mix(seed ^ Mix(static_cast<uint64_t>(i)));
    uint64_t word = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int element = static_cast<int>((bits >> (8 * j) & 0xff) * 255 / 256) - 127;
      word |= (static_cast<uint64_t>(element) & 0xff) << (8 * j);
    }
    if (i + 8 <= count) {
      *reinterpret_cast<uint64_t*>(elements + i) = word;
      continue;
    }
    for (int64_t j = 0; i + j < count; ++j) elements[i + j] = static_cast<int8_t>(word >> (8 * j));
  }
}

__global__ void __launch_bounds__(kThreads) Scales(float* scales, int64_t count, uint64_t seed, float largest) {
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += int64_t{kBlocks} * kThreads) {
    const uint32_t bits = static_cast<uint32_t>(Mix(seed ^ Mix(static_cast<uint64_t>(i))) >> 40);  // 24 bits
    scales[i] = (static_cast<float>(bits) * 0x1p-25f + 0.5f) * largest;
  }
}

}  // namespace

cudaError_t FillRandom(ScalarType type, void* elements, int64_t count, uint64_t seed, float scale,
                       cudaStream_t stream) {
  switch (type) {
    case ScalarType::kF16:
      Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<__half*>(elements), count, seed, scale);
      return cudaGetLastError();
    case ScalarType::kBF16:
      Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(elements), count, seed, scale);
      return cudaGetLastError();
    case ScalarType::kF32:
      Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<float*>(elements), count, seed, scale);
      return cudaGetLastError();
    case ScalarType::kI8:
      FillI8<<<kBlocks, kThreads, 0, stream>>>(static_cast<int8_t*>(elements), count, seed);
      return cudaGetLastError();
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      break;  // rows have no elements
  }
  return cudaErrorInvalidValue;
}

cudaError_t FillScales(float* scales, int64_t count, uint64_t seed, float largest, cudaStream_t stream) {
  Scales<<<kBlocks, kThreads, 0, stream>>>(scales, count, seed, largest);
  return cudaGetLastError();
}

}  // namespace maxsim::cuda
