// A pass of three-way attention in FP32, without tensor cores (triadic_device.cuh explains passes). Shared memory has
// tiles of 64 (or 32) rows and of 32 inner rows. Each thread computes the logits of 4 (or 2) rows by 4 inner rows. Only
// the products of the owner's key and the rows' keys are rounded to the type of the rows, as in the F16 forward pass on
// tensor cores.
#pragma once

#include <cuda_runtime.h>

#include "kernels/library/triadic/triadic_device.cuh"

namespace maxsim::library {

inline constexpr int kPlainInner = 32;      // inner rows of a tile
inline constexpr int kPlainLanesInner = 8;  // neighbouring threads that share rows, each with four inner rows
inline constexpr int kPlainInnerRows = 4;

// The shared memory of a thread block. Matrices are stored column by column, so that a thread reads its rows with one
// load. A warp fills them row by row; the padding of 16 bytes spreads its stores over the banks.
template <int kDim, int kRows>
struct PlainMemory {
  static constexpr int kBlockRows = kTriadicThreads / kPlainLanesInner * kRows;
  float key_products[kDim][kBlockRows + 4];  // products of the owner's key and the rows' keys, rounded to their type
  float value_products[kDim][kBlockRows + 4];
  float keys[kDim][kPlainInner + 4];
  float values[kDim][kPlainInner + 4];
  float weights[kPlainInner][kBlockRows + 4];
  float owner_keys[kDim];
  float owner_values[kDim];
  WarpResults<kDim> results;
};

// Reads kRows floats from an address that is a multiple of their total size.
template <int kRows>
__device__ __forceinline__ void ReadRows(const float* source, float (&values)[kRows]) {
  static_assert(kRows == 2 || kRows == 4);
  if constexpr (kRows == 4) {
    const float4 four = *reinterpret_cast<const float4*>(source);
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
  } else {
    const float2 two = *reinterpret_cast<const float2*>(source);
    values[0] = two.x, values[1] = two.y;
  }
}

// Fills `tile`, which is stored column by column, with the rows of a matrix from `begin` on. Writes convert(value,
// column) for each value.
template <class T, int kDim, int kTileRows, class Convert>
__device__ __forceinline__ void FillColumns(const DeviceRows<T>& rows, int32_t begin, const Convert& convert,
                                            float (&tile)[kDim][kTileRows + 4]) {
#pragma unroll 4
  for (int element = threadIdx.x; element < kDim * kTileRows; element += kTriadicThreads) {
    const int column = element % kDim;
    const int row = element / kDim;
    tile[column][row] = convert(rows.Value(begin + row, column), column);
  }
}

// Writes the inner product of the thread's row r and inner row k to sums[r][k].
template <int kDim, int kRows, int kBlockPitch>
__device__ __forceinline__ void MultiplyColumns(const float (&rows)[kDim][kBlockPitch],
                                                const float (&inner)[kDim][kPlainInner + 4],
                                                float (&sums)[kRows][kPlainInnerRows]) {
  const int row = threadIdx.x / kPlainLanesInner * kRows;
  const int inner_row = threadIdx.x % kPlainLanesInner * kPlainInnerRows;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int k = 0; k < kPlainInnerRows; ++k) sums[r][k] = 0;
  }
#pragma unroll 4
  for (int column = 0; column < kDim; ++column) {
    float a[kRows];
    float b[kPlainInnerRows];
    ReadRows<kRows>(&rows[column][row], a);
    ReadRows<kPlainInnerRows>(&inner[column][inner_row], b);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kPlainInnerRows; ++k) sums[r][k] = __fmaf_rn(a[r], b[k], sums[r][k]);
    }
  }
}

template <class T, int kDim, int kRows, TriadicMode kMode>
class PlainPass {
 public:
  using Memory = PlainMemory<kDim, kRows>;
  static constexpr int kColumns = kDim / kPlainLanesInner;  // of a thread's sums: columns lane % 8 + 8 j

  __device__ __forceinline__ PlainPass(const TriadicParams& params, Memory& memory, int64_t owner, int64_t problem)
      : params_(params), memory_(memory), owner_(owner), problem_(problem) {}

  __device__ __forceinline__ void Run() {
    const TriadicRoles& roles = params_.roles;
    const DeviceRows<T> row_keys = RowsOf<T>(params_, roles.rows.keys, roles.rows, problem_);
    const DeviceRows<T> row_values = RowsOf<T>(params_, roles.rows.values, roles.rows, problem_);
    const DeviceRows<T> inner_keys = RowsOf<T>(params_, roles.inner.keys, roles.inner, problem_);
    const DeviceRows<T> inner_values = RowsOf<T>(params_, roles.inner.values, roles.inner, problem_);
    ReadOwner();
    const float row_factor = KeyFactors::Of(params_).rows;
    const auto unchanged = [](float value, int /*column*/) { return value; };
    const auto key_product = [&](float value, int column) {
      return Widen(Narrow<T>(value * row_factor * memory_.owner_keys[column]));
    };
    const auto value_product = [&](float value, int column) { return value * memory_.owner_values[column]; };
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      sums_[j] = 0;
#pragma unroll
      for (int r = 0; r < kRows; ++r) inner_sums_[r][j] = 0;
    }
    for (int32_t begin = 0; begin < row_keys.num_rows; begin += Memory::kBlockRows) {
      __syncthreads();  // the owner's vectors are stored, and no warp uses the last rows any more
      FillColumns<T, kDim, Memory::kBlockRows>(row_keys, begin, key_product, memory_.key_products);
      if constexpr (kMode == TriadicMode::kKeys) {
        FillColumns<T, kDim, Memory::kBlockRows>(row_values, begin, value_product, memory_.value_products);
      }
      const int32_t row = begin + FirstRow();
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        terms_[r] = RowTerms::Of<kMode>(params_, problem_, owner_, row + r, row_keys.num_rows);
      }
      for (int32_t inner = 0; inner < inner_keys.num_rows; inner += kPlainInner) {
        __syncthreads();
        FillColumns<T, kDim, kPlainInner>(inner_keys, inner, unchanged, memory_.keys);
        FillColumns<T, kDim, kPlainInner>(inner_values, inner, unchanged, memory_.values);
        __syncthreads();
        AddTile(inner_keys.num_rows - inner);
      }
      AddRows(kMode == TriadicMode::kKeys ? row_keys : row_values, row);
    }
    Leave();
    __syncthreads();
    WriteResult<T, kDim, kMode>(params_, owner_, memory_.results, 0);
  }

 private:
  static __device__ __forceinline__ int FirstRow() { return threadIdx.x / kPlainLanesInner * kRows; }
  static __device__ __forceinline__ int Column(int j) { return threadIdx.x % kPlainLanesInner + j * kPlainLanesInner; }

  __device__ __forceinline__ void ReadOwner() {
    for (int column = threadIdx.x; column < kDim; column += kTriadicThreads) {
      const bool present = column < params_.dim;
      const int64_t element = owner_ * params_.dim + column;
      const float key = present ? Widen(static_cast<const T*>(params_.roles.owner.keys)[element]) : 0.0f;
      memory_.owner_keys[column] = key * KeyFactors::Of(params_).owner;
      if constexpr (kMode == TriadicMode::kKeys) {
        memory_.owner_values[column] =
            present ? Widen(static_cast<const T*>(params_.roles.owner.values)[element]) : 0.0f;
      }
    }
  }

  // Adds a tile's pairs. Only the first `count` inner rows of the tile exist.
  __device__ __forceinline__ void AddTile(int32_t count) {
    float weights[kRows][kPlainInnerRows];
    MultiplyColumns<kDim, kRows>(memory_.key_products, memory_.keys, weights);
    const int inner_row = threadIdx.x % kPlainLanesInner * kPlainInnerRows;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kPlainInnerRows; ++k) {
        weights[r][k] = inner_row + k < count ? weights[r][k] - terms_[r].lse : -kTriadicInfinity;
      }
    }
    Weigh(weights);
#pragma unroll
    for (int k = 0; k < kPlainInnerRows; ++k) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) memory_.weights[inner_row + k][FirstRow() + r] = weights[r][k];
    }
    __syncwarp();  // the threads that share rows are of one warp
    const auto& added = kMode == TriadicMode::kKeys ? memory_.keys : memory_.values;
#pragma unroll 2
    for (int k = 0; k < kPlainInner; ++k) {
      float weight[kRows];
      ReadRows<kRows>(&memory_.weights[k][FirstRow()], weight);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float value = added[Column(j)][k];
#pragma unroll
        for (int r = 0; r < kRows; ++r) inner_sums_[r][j] = __fmaf_rn(weight[r], value, inner_sums_[r][j]);
      }
    }
  }

  // Turns logits, which are relative to the rows' lse, into weights. For kKeys, multiplies them by the gradients of the
  // weights, less delta.
  __device__ __forceinline__ void Weigh(float (&weights)[kRows][kPlainInnerRows]) {
    float reference = 0;
    if constexpr (kMode == TriadicMode::kOutput) {
      float largest = -kTriadicInfinity;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int k = 0; k < kPlainInnerRows; ++k) largest = fmaxf(largest, weights[r][k]);
      }
      if (const float factor = softmax_.Raise(largest); factor != 1) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          sums_[j] *= factor;
#pragma unroll
          for (int r = 0; r < kRows; ++r) inner_sums_[r][j] *= factor;
        }
      }
      reference = softmax_.Reference(0);
    }
    float gradients[kRows][kPlainInnerRows];
    if constexpr (kMode == TriadicMode::kKeys) {
      MultiplyColumns<kDim, kRows>(memory_.value_products, memory_.values, gradients);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kPlainInnerRows; ++k) {
        weights[r][k] = exp2f(weights[r][k] - reference);
        if constexpr (kMode == TriadicMode::kOutput) softmax_.denominator += weights[r][k];
        if constexpr (kMode == TriadicMode::kKeys) weights[r][k] *= gradients[r][k] - terms_[r].delta;
      }
    }
  }

  // Adds row * inner_sum for the thread's rows, from `row` on, to sums_, and clears inner_sums_.
  __device__ __forceinline__ void AddRows(const DeviceRows<T>& rows, int32_t row) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        sums_[j] = __fmaf_rn(rows.Value(row + r, Column(j)), inner_sums_[r][j], sums_[j]);
        inner_sums_[r][j] = 0;
      }
    }
  }

  // Stores the warp's sums and softmax in shared memory, where WriteResult adds up those of all warps.
  __device__ __forceinline__ void Leave() {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      float sum = sums_[j];
#pragma unroll
      for (int offset = 16; offset >= kPlainLanesInner; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (threadIdx.x % 32 < kPlainLanesInner) memory_.results.sums[threadIdx.x / 32][Column(j)] = sum;
    }
    if constexpr (kMode == TriadicMode::kOutput) LeaveSoftmax(softmax_, memory_.results);
  }

  const TriadicParams& params_;
  Memory& memory_;
  const int64_t owner_;
  const int64_t problem_;
  RowTerms terms_[kRows];
  OnlineSoftmax softmax_;
  float inner_sums_[kRows][kColumns];
  float sums_[kColumns];
};

// The launch bounds give the thread blocks per multiprocessor, because without this number the assembler would use
// fewer registers and spill.
template <class T, int kDim, int kRows, TriadicMode kMode>
__global__ void __launch_bounds__(kTriadicThreads, kDim == 32 ? 3 : 2)
    PlainPassKernel(const __grid_constant__ TriadicParams params) {
  extern __shared__ __align__(16) char shared[];
  const int64_t owner = blockIdx.x;
  const auto max_rows = static_cast<uint32_t>(params.roles.owner.max_rows);  // a grid has fewer than 2^31 of them
  const int64_t problem = blockIdx.x / max_rows;
  if (blockIdx.x % max_rows >= LengthOf(params, params.roles.owner, problem)) {
    WriteNothing<T, kMode>(params, owner);
    return;
  }
  PlainPass<T, kDim, kRows, kMode>(params, *reinterpret_cast<PlainMemory<kDim, kRows>*>(shared), owner, problem).Run();
}

template <class T, int kDim, int kRows, TriadicMode kMode>
cudaError_t LaunchPlainKernel(const TriadicParams& params, cudaStream_t stream) {
  constexpr size_t kBytes = sizeof(PlainMemory<kDim, kRows>);
  static_assert(kBytes <= 99 * 1024, "what the smallest multiprocessors since sm_80 have");
  return LaunchRows(PlainPassKernel<T, kDim, kRows, kMode>, kBytes, params, stream);
}

// Chooses the kernel by the number of columns. With more than 64 columns, shared memory has room for only half as many
// rows.
template <class T, TriadicMode kMode>
cudaError_t LaunchPlainPass(const TriadicParams& params, cudaStream_t stream) {
  if (params.dim <= 32) return LaunchPlainKernel<T, 32, 4, kMode>(params, stream);
  if (params.dim <= 64) return LaunchPlainKernel<T, 64, 4, kMode>(params, stream);
  return LaunchPlainKernel<T, 128, 2, kMode>(params, stream);
}

}  // namespace maxsim::library
