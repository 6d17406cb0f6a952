// Rotates and quantises query rows, a warp a row, or of wide rows a thread block. The operations and their order are
// those of kernels/quantize.cc: the transforms' additions one distance after the other, nothing contracted, division
// and rounding to nearest even.
#include <algorithm>

#include "kernels/cuda/completion.cuh"
#include "kernels/cuda/grid_order.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/quantize_launch.h"
#include "kernels/plan.h"
#include "kernels/quantize.h"

namespace maxsim::cuda {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxWarps = kMaxThreads / 32;
// Rows of at most so many columns are a warp's.
constexpr int kWarpDim = 256;
// Thread blocks that a call has before they have a second warp.
constexpr int kLoneWarps = 128;

// The threads that have a row between them.
template <bool kWarp>
struct RowThreads {
  __device__ __forceinline__ int index() const { return static_cast<int>(kWarp ? threadIdx.x % 32 : threadIdx.x); }
  __device__ __forceinline__ int count() const { return static_cast<int>(kWarp ? 32 : blockDim.x); }
  __device__ __forceinline__ void Sync() const {
    if constexpr (kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
};

// One round over `row` in shared memory.
template <bool kWarp>
__device__ __forceinline__ void RotateOnce(const QuantizeParams& p, float* row, int round, RowThreads<kWarp> threads) {
  const int span = RotationSpan(p.dim), begin = RotationBegin(p.dim, round);
  for (int column = begin + threads.index(); column < begin + span; column += threads.count()) {
    const uint64_t signs = RotationSigns(p.rotation_seed, round, column / 64);
    if ((signs >> (column % 64) & 1) != 0) row[column] = -row[column];
  }
  for (int distance = 1; distance < span; distance *= 2) {
    threads.Sync();
    for (int pair = threads.index(); pair < span / 2; pair += threads.count()) {
      const int within = pair & (distance - 1);
      float* const first = row + begin + 2 * pair - within;
      const float a = first[0], b = first[distance];
      first[0] = __fadd_rn(a, b);
      first[distance] = __fsub_rn(a, b);
    }
  }
  threads.Sync();
  for (int column = begin + threads.index(); column < begin + span; column += threads.count()) {
    row[column] = __fmul_rn(row[column], p.rotation_factor);
  }
  threads.Sync();
}

template <bool kWarp>
__device__ __forceinline__ float LargestMagnitude(const QuantizeParams& p, const float* row, float* of_warps,
                                                  RowThreads<kWarp> threads) {
  float largest = 0;
  for (int column = threads.index(); column < p.dim; column += threads.count()) {
    largest = fmaxf(largest, fabsf(row[column]));
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  }
  if constexpr (!kWarp) {
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < static_cast<int>(blockDim.x / 32); ++warp) largest = fmaxf(largest, of_warps[warp]);
  }
  return largest;
}

template <bool kWarp>
__global__ void __launch_bounds__(kMaxThreads) QuantizeQueries(const __grid_constant__ QuantizeParams p) {
  extern __shared__ float rows[];  // [rows of the thread block, dim]
  __shared__ float of_warps[kMaxWarps];
  LetNextGridStart();
  const RowThreads<kWarp> threads;
  const int in_thread_block = kWarp ? static_cast<int>(threadIdx.x / 32) : 0;
  const int index = static_cast<int>(blockIdx.x * (kWarp ? blockDim.x / 32 : 1)) + in_thread_block;
  if (index >= p.num_rows) return;  // the whole warp, or nobody
  float* const row = rows + in_thread_block * p.dim;
  const bool notes = p.times != nullptr && blockIdx.x == 0 && threadIdx.x == 0;
  if (notes) NoteTime(&p.times->input_begin);
  const float* const values = p.values + index * p.value_pitch;
  // Read together: they may come over the link.
#pragma unroll 8
  for (int column = threads.index(); column < p.dim; column += threads.count()) row[column] = values[column];
  threads.Sync();
  if (notes) NoteTime(&p.times->input_end);
  for (int round = 0; round < kRotationRounds; ++round) RotateOnce(p, row, round, threads);

  constexpr float kLargest = kMaxInt8;
  const float largest = LargestMagnitude(p, row, of_warps, threads);
  const bool nothing = largest < kMinQuantizedMagnitude;
  const float inverse = nothing ? 0.0f : __fdiv_rn(kLargest, largest);
  // Four elements a thread and word.
  const int pitch = p.operand_order != 0 ? StreamQueryPitch(p.row_bytes) : p.row_bytes;
  const int in_block = index % kBlockTokens;
  int8_t* const block = p.rows + static_cast<int64_t>(index - in_block) * pitch;
  for (int word = threads.index(); word < pitch / 4; word += threads.count()) {
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
  if (threads.index() == 0) {
    const float scale = nothing ? 0.0f : __fdiv_rn(largest, kLargest);
    p.factors[index] = __fmul_rn(p.weights[index], scale);
  }
}

}  // namespace

cudaError_t PrepareQuantizeQueries() {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, QuantizeQueries<true>);
  return error == cudaSuccess ? cudaFuncGetAttributes(&attributes, QuantizeQueries<false>) : error;
}

cudaError_t LaunchQuantizeQueries(const QuantizeParams& params, cudaStream_t stream) {
  if (params.num_rows == 0) return cudaSuccess;
  const size_t row_bytes = static_cast<size_t>(params.dim) * sizeof(float);
  if (params.dim <= kWarpDim) {
    const int warps = std::clamp(params.num_rows / kLoneWarps, 1, kMaxWarps);
    return LaunchKernel(QuantizeQueries<true>, (params.num_rows + warps - 1) / warps, warps * 32, warps * row_bytes,
                        stream, params);
  }
  const int threads = std::clamp(RotationSpan(params.dim) / 2, 32, kMaxThreads);
  return LaunchKernel(QuantizeQueries<false>, params.num_rows, threads, row_bytes, stream, params);
}

}  // namespace maxsim::cuda
