// Code that the kernels of three-way attention share.
//
// In a pass (TriadicMode), a thread block computes the result for one row `a` of the owner axis. For rows `b` of a
// second axis and rows `c` of the inner axis (TriadicRoles)
//
//   logit_bc = scale * <a, b, c>          weight_bc = exp(logit_bc - lse)           (lse: online for kOutput)
//
// So the logits of a tile are a matrix product of (a * b), multiplied column by column, and c. The sums over c are
// another matrix product, inner_sum_b = sum_c weight_bc * c. The result is sum_b b * inner_sum_b. In the kernels,
// logits and lse are in units of log 2, so that weights are powers of 2.
//
// (a * b) is rounded to 16 bits, which in BF16 changes a logit of 47 by up to 0.1. So a backward pass must use the lse
// of a forward pass that rounded the same products; otherwise its weights would not sum to 1. One of a and b is the
// query. Every pass computes (query * (scale * log2 e)) * key, so that the bits do not depend on which of the two is
// the owner (KeyFactors).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <limits>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"
#include "kernels/library/triadic/triadic_kernels.h"

namespace maxsim::library {

inline constexpr float kTriadicInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

inline constexpr int kTriadicThreads = 128;
inline constexpr int kTriadicWarps = kTriadicThreads / 32;

__device__ __forceinline__ int32_t LengthOf(const TriadicParams& params, const TriadicAxis& axis, int64_t problem) {
  if (axis.lengths == nullptr) return static_cast<int32_t>(axis.max_rows);
  return params.index_type == MAXSIM_INT32 ? static_cast<const int32_t*>(axis.lengths)[problem]
                                           : static_cast<int32_t>(static_cast<const int64_t*>(axis.lengths)[problem]);
}

// One problem's rows of an axis.
template <class T>
struct DeviceRows {
  const T* rows;
  int32_t num_rows;
  int32_t dim;

  // Returns an element, or 0 past the last row or column.
  __device__ __forceinline__ float Value(int32_t row, int32_t column) const {
    return row < num_rows && column < dim ? Widen(rows[static_cast<int64_t>(row) * dim + column]) : 0.0f;
  }
};

template <class T>
__device__ __forceinline__ DeviceRows<T> RowsOf(const TriadicParams& params, const void* rows, const TriadicAxis& axis,
                                                int64_t problem) {
  return {static_cast<const T*>(rows) + problem * axis.max_rows * params.dim, LengthOf(params, axis, problem),
          params.dim};
}

// The factors by which the owner's vector and those of `rows` are multiplied before their product is taken: scale *
// log2 e for the query, 1 for the key.
struct KeyFactors {
  float owner;
  float rows;

  static __device__ __forceinline__ KeyFactors Of(const TriadicParams& params) {
    const float query = params.scale * kLog2E;
    return params.roles.owner_is_query ? KeyFactors{query, 1.0f} : KeyFactors{1.0f, query};
  }
};

// Numbers that belong to a row of `rows`, in addition to its key and value.
struct alignas(8) RowTerms {
  float lse;    // in units of log 2; 0 for kOutput; infinity if the row does not exist, so that its weights are 0
  float delta;  // kKeys

  template <TriadicMode kMode>
  static __device__ __forceinline__ RowTerms Of(const TriadicParams& params, int64_t problem, int64_t owner,
                                                int32_t row, int32_t num_rows) {
    if (row >= num_rows) return {kTriadicInfinity, 0};
    if constexpr (kMode == TriadicMode::kOutput) {
      return {0, 0};
    } else {
      const int64_t query = params.roles.owner_is_query ? owner : problem * params.roles.rows.max_rows + row;
      return {params.lse[query] * kLog2E, kMode == TriadicMode::kKeys ? params.delta[query] : 0.0f};
    }
  }
};

// The online softmax of a warp: the largest logit so far, and a lane's part of the sum of exponentials. Weights are
// 2^(logit - maximum + shift), where the shift uses more of the range of F16.
struct OnlineSoftmax {
  float maximum = -kTriadicInfinity;
  float denominator = 0;

  // Updates the maximum with the largest of each lane's new logits. Returns the factor, the same in all lanes, by which
  // the caller must multiply its sums.
  __device__ __forceinline__ float Raise(float largest) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    if (!(largest > maximum)) return 1;
    const float factor = exp2f(maximum - largest);
    denominator *= factor;
    maximum = largest;
    return factor;
  }
  // Returns maximum - shift, to which weights are relative; 0 if there were no logits.
  __device__ __forceinline__ float Reference(float shift) const {
    return maximum == -kTriadicInfinity ? 0.0f : maximum - shift;
  }
};

// The results that each warp of a thread block stores at the end of a pass. WriteResult adds them up.
template <int kDim>
struct WarpResults {
  float sums[kTriadicWarps][kDim];
  float maxima[kTriadicWarps];
  float denominators[kTriadicWarps];
};

// Stores a warp's softmax in `results`. The caller stores the sums.
template <int kDim>
__device__ __forceinline__ void LeaveSoftmax(OnlineSoftmax softmax, WarpResults<kDim>& results) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    softmax.denominator += __shfl_xor_sync(0xffffffffu, softmax.denominator, offset);
  }
  if (threadIdx.x % 32 != 0) return;
  results.maxima[threadIdx.x / 32] = softmax.maximum;
  results.denominators[threadIdx.x / 32] = softmax.denominator;
}

// Adds up the warps' results in the order of warps, and writes the owner's row. All threads must call it, after a
// barrier.
template <class T, int kDim, TriadicMode kMode>
__device__ __forceinline__ void WriteResult(const TriadicParams& params, int64_t owner,
                                            const WarpResults<kDim>& results, float shift) {
  static_assert(kDim <= kTriadicThreads);
  const int32_t column = static_cast<int32_t>(threadIdx.x);
  float sum = 0;
  float total = 0;
  float maximum = -kTriadicInfinity;
  if constexpr (kMode == TriadicMode::kOutput) {
#pragma unroll
    for (int warp = 0; warp < kTriadicWarps; ++warp) maximum = fmaxf(maximum, results.maxima[warp]);
  }
#pragma unroll
  for (int warp = 0; warp < kTriadicWarps; ++warp) {
    float factor = 1;
    if constexpr (kMode == TriadicMode::kOutput) {
      factor = maximum == -kTriadicInfinity ? 0.0f : exp2f(results.maxima[warp] - maximum);
      total = __fmaf_rn(factor, results.denominators[warp], total);
    }
    if (column < kDim) sum = __fmaf_rn(factor, results.sums[warp][column], sum);
  }
  if constexpr (kMode == TriadicMode::kOutput) {
    if (column == 0) params.result_lse[owner] = total > 0 ? (maximum - shift + log2f(total)) * kLn2 : -kTriadicInfinity;
    sum = total > 0 ? sum / total : 0.0f;
  }
  if constexpr (kMode == TriadicMode::kKeys) sum *= params.scale;
  if (column < params.dim) static_cast<T*>(params.result)[owner * params.dim + column] = Narrow<T>(sum);
}

// Writes the result of an owner row past its problem's length: zeros, and for kOutput an lse of minus infinity.
template <class T, TriadicMode kMode>
__device__ __forceinline__ void WriteNothing(const TriadicParams& params, int64_t owner) {
  const int32_t column = static_cast<int32_t>(threadIdx.x);
  if (column < params.dim) static_cast<T*>(params.result)[owner * params.dim + column] = Narrow<T>(0.0f);
  if (kMode == TriadicMode::kOutput && column == 0) params.result_lse[owner] = -kTriadicInfinity;
}

// Launches the kernel of a pass with one thread block per row of the owner.
template <class Kernel>
cudaError_t LaunchRows(Kernel kernel, size_t shared_bytes, const TriadicParams& params, cudaStream_t stream) {
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error != cudaSuccess) return error;
  const auto num_blocks = static_cast<unsigned>(params.num_problems * params.roles.owner.max_rows);
  return cuda::LaunchKernel(kernel, dim3(num_blocks), dim3(kTriadicThreads), shared_bytes, stream, params);
}

}  // namespace maxsim::library
