// Rotates and quantises query rows, one thread block per row. The operations and their order are those of
// kernels/quantize.cc. A transform adds and subtracts columns at distance 1, then at distance 2, 4 and so on. No
// multiplication is fused with an addition. Divisions and roundings go to nearest even.
#include <algorithm>

#include "kernels/cuda/call/launch/quantize_launch.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/select/completion.cuh"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/quantize.h"

namespace maxsim::cuda {
namespace {

constexpr int kMaxThreads = 256;

// Lets the next kernel of the CUDA stream begin, if it was launched to overlap (sm_90).
__device__ __forceinline__ void AllowNextKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Applies one round of the rotation to `row` in shared memory. All threads of the thread block call it.
__device__ __forceinline__ void RotateOnce(const QuantizeParams& p, float* row, int round) {
  const int span = RotationSpan(p.dim), begin = RotationBegin(p.dim, round);
  for (int column = begin + threadIdx.x; column < begin + span; column += blockDim.x) {
    const uint64_t signs = RotationSigns(p.rotation_seed, round, column / 64);
    if ((signs >> (column % 64) & 1) != 0) row[column] = -row[column];
  }
  for (int distance = 1; distance < span; distance *= 2) {
    __syncthreads();
    for (int pair = threadIdx.x; pair < span / 2; pair += blockDim.x) {
      float* const first = row + begin + (pair / distance) * 2 * distance + pair % distance;
      const float a = first[0], b = first[distance];
      first[0] = __fadd_rn(a, b);
      first[distance] = __fsub_rn(a, b);
    }
  }
  __syncthreads();
  for (int column = begin + threadIdx.x; column < begin + span; column += blockDim.x) {
    row[column] = __fmul_rn(row[column], p.rotation_factor);
  }
  __syncthreads();
}

// Returns the largest magnitude of `row` to all threads of the thread block, which must all call it. `of_warps` is
// shared memory for one number per warp.
__device__ __forceinline__ float LargestMagnitude(const QuantizeParams& p, const float* row, float* of_warps) {
  float largest = 0;
  for (int column = threadIdx.x; column < p.dim; column += blockDim.x) largest = fmaxf(largest, fabsf(row[column]));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int warp = 0; warp < static_cast<int>(blockDim.x / 32); ++warp) largest = fmaxf(largest, of_warps[warp]);
  return largest;
}

__global__ void __launch_bounds__(kMaxThreads) QuantizeQueries(const __grid_constant__ QuantizeParams p) {
  extern __shared__ float row[];  // [dim]
  __shared__ float of_warps[kMaxThreads / 32];
  AllowNextKernel();
  const bool notes = p.times != nullptr && blockIdx.x == 0 && threadIdx.x == 0;
  if (notes) NoteTime(&p.times->input_begin);
  const float* const values = p.values + blockIdx.x * p.value_pitch;
  for (int column = threadIdx.x; column < p.dim; column += blockDim.x) row[column] = values[column];
  __syncthreads();
  if (notes) NoteTime(&p.times->input_end);
  for (int round = 0; round < kRotationRounds; ++round) RotateOnce(p, row, round);

  constexpr float kLargest = kMaxInt8;
  const float largest = LargestMagnitude(p, row, of_warps);
  const bool nothing = largest < kMinQuantizedMagnitude;
  const float inverse = nothing ? 0.0f : __fdiv_rn(kLargest, largest);
  // Each thread packs four elements into a word.
  const int pitch = p.operand_order != 0 ? StreamQueryPitch(p.row_bytes) : p.row_bytes;
  const int in_block = blockIdx.x % kQueryTileTokens;
  int8_t* const block = p.rows + static_cast<int64_t>(blockIdx.x - in_block) * pitch;
  for (int word = threadIdx.x; word < pitch / 4; word += blockDim.x) {
    uint32_t packed = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = word * 4 + i;
      if (nothing || column >= p.dim) continue;
      const int element = min(max(__float2int_rn(__fmul_rn(row[column], inverse)), -kMaxInt8), kMaxInt8);
      packed |= (static_cast<uint32_t>(element) & 0xffu) << (8 * i);
    }
    const int offset = p.operand_order != 0 ? StreamQueryOffset(in_block, word * 4) : in_block * pitch + word * 4;
    *reinterpret_cast<uint32_t*>(block + offset) = packed;
  }
  if (threadIdx.x == 0) {
    const float scale = nothing ? 0.0f : __fdiv_rn(largest, kLargest);
    p.factors[blockIdx.x] = __fmul_rn(p.weights[blockIdx.x], scale);
  }
}

}  // namespace

cudaError_t PrepareQuantizeQueries() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, QuantizeQueries);
}

cudaError_t LaunchQuantizeQueries(const QuantizeParams& params, cudaStream_t stream) {
  if (params.num_rows == 0) return cudaSuccess;
  const int threads = std::clamp(RotationSpan(params.dim) / 2, 32, kMaxThreads);
  return LaunchKernel(QuantizeQueries, params.num_rows, threads, params.dim * sizeof(float), stream, params);
}

}  // namespace maxsim::cuda
