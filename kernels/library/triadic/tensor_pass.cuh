// A pass of three-way attention on tensor cores (mma.sync, sm_80), for 16-bit rows (triadic_device.cuh explains
// passes). It works like FlashAttention-2, with (a * b) instead of queries. A warp has the products of 16 or 32 rows b
// with the owner's row a in registers. It walks through tiles of inner rows: while it uses one tile in shared memory,
// cp.async copies the next.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/score/portable/ptx/copy_async.cuh"
#include "kernels/cuda/score/portable/ptx/ldmatrix.cuh"
#include "kernels/cuda/score/portable/ptx/mma.cuh"
#include "kernels/library/triadic/triadic_device.cuh"

namespace maxsim::library {

inline constexpr int kTensorInner = 64;  // inner rows of a tile

// Elements from row to row of a tile. The padding of 16 bytes puts eight consecutive rows, which ldmatrix reads at
// once, into different banks.
template <int kDim>
inline constexpr int kTensorPitch = kDim + 8;

// The keys and the values of a tile of inner rows.
template <class T, int kDim>
struct alignas(16) TensorTile {
  T keys[kTensorInner][kTensorPitch<kDim>];
  T values[kTensorInner][kTensorPitch<kDim>];
};

template <class T, int kDim>
struct TensorMemory {
  TensorTile<T, kDim> tiles[2];
  float owner_keys[kDim];  // scaled by KeyFactors::owner
  float owner_values[kDim];
  RowTerms terms[kTriadicWarps][32];  // of a warp's rows
  DeviceRows<T> row_keys;             // in shared memory to save registers
  DeviceRows<T> row_values;
  WarpResults<kDim> results;
};

template <class T>
inline constexpr ScalarType kTensorType = ScalarType::kBF16;
template <>
inline constexpr ScalarType kTensorType<__half> = ScalarType::kF16;

__device__ __forceinline__ uint32_t Pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t Pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Starts to copy kTensorInner inner rows of one matrix, from `begin` on. Rows and columns that do not exist become
// zeros.
template <class T, int kDim>
__device__ __forceinline__ void CopyTile(const DeviceRows<T>& inner, int32_t begin, bool aligned,
                                         T (&tile)[kTensorInner][kTensorPitch<kDim>]) {
  constexpr int kPieces = kDim / 8;  // pieces of 16 bytes per row
#pragma unroll 1
  for (int piece = threadIdx.x; piece < kTensorInner * kPieces; piece += kTriadicThreads) {
    const int row = piece / kPieces;
    const int column = piece % kPieces * 8;
    T* const target = &tile[row][column];
    if (aligned) {
      const bool present = begin + row < inner.num_rows && column < inner.dim;
      const T* const source = inner.rows + (present ? static_cast<int64_t>(begin + row) * inner.dim + column : 0);
      cuda::sm80::CopyAsync16OrZero(static_cast<uint32_t>(__cvta_generic_to_shared(target)), source, present);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) target[i] = Narrow<T>(inner.Value(begin + row, column + i));
    }
  }
}

// Writes the products, column by column, of an owner's vector with 16 rows from `row` on, multiplied by `row_factor`,
// as fragments of mma's first operand.
template <class T, int kDim>
__device__ __forceinline__ void MakeProducts(const DeviceRows<T>& rows, int32_t row, float row_factor,
                                             const float (&owner)[kDim], uint32_t (&fragments)[kDim / 16][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t at = row + lane / 4 + i % 2 * 8;
      const int32_t column = step * 16 + lane % 4 * 2 + i / 2 * 8;
      fragments[step][i] = Pack(rows.Value(at, column) * row_factor * owner[column],
                                rows.Value(at, column + 1) * row_factor * owner[column + 1], T{});
    }
  }
}

// Adds the inner products of the rows in `fragments` and kRows inner rows to `sums`. `tile` is the shared-memory
// address of the first of these inner rows.
template <class T, int kDim, int kRowTiles, int kRows>
__device__ __forceinline__ void MultiplyRows(const uint32_t (&fragments)[kRowTiles][kDim / 16][4], uint32_t tile,
                                             float (&sums)[kRowTiles][kRows / 8][4]) {
  const int lane = threadIdx.x % 32;
  const uint32_t address = tile + ((lane / 16 * 8 + lane % 8) * kTensorPitch<kDim> + lane / 8 % 2 * 8) * sizeof(T);
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int n = 0; n < kRows / 8; n += 2) {
      uint32_t b[4];
      cuda::sm80::LoadMatrices(b, address + (n * 8 * kTensorPitch<kDim> + step * 16) * sizeof(T));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        cuda::sm80::MultiplyAdd<kTensorType<T>>(sums[m][n], fragments[m][step], b[0], b[1]);
        cuda::sm80::MultiplyAdd<kTensorType<T>>(sums[m][n + 1], fragments[m][step], b[2], b[3]);
      }
    }
  }
}

// Adds kRows inner rows, each times its weight, to sums[m]. `weights` has the weights of these inner rows for every
// row.
template <class T, int kDim, int kRowTiles, int kRows>
__device__ __forceinline__ void AddWeightedRows(const float (&weights)[kRowTiles][kRows / 8][4], uint32_t tile,
                                                float (&sums)[kRowTiles][kDim / 8][4]) {
  const int lane = threadIdx.x % 32;
  const uint32_t address = tile + ((lane / 8 % 2 * 8 + lane % 8) * kTensorPitch<kDim> + lane / 16 * 8) * sizeof(T);
#pragma unroll
  for (int step = 0; step < kRows / 16; ++step) {
    uint32_t a[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = weights[m][step * 2 + i / 2];
        a[m][i] = Pack(pair[i % 2 * 2], pair[i % 2 * 2 + 1], T{});
      }
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      cuda::sm80::LoadMatricesTransposed(b, address + (step * 16 * kTensorPitch<kDim> + n * 8) * sizeof(T));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        cuda::sm80::MultiplyAdd<kTensorType<T>>(sums[m][n], a[m], b[0], b[1]);
        cuda::sm80::MultiplyAdd<kTensorType<T>>(sums[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// A warp's state, which it keeps from tile to tile.
template <class T, int kDim, int kRowTiles, TriadicMode kMode>
struct TensorState {
  // F16 weights are scaled so that the largest is 2^10. Otherwise weights below 2^-24 times the largest would become 0.
  static constexpr float kShift = kTensorType<T> == ScalarType::kF16 ? 10 : 0;
  // Number of inner rows whose logits are in registers at a time.
  static constexpr int kRows = kMode == TriadicMode::kKeys || kDim > 64 ? 16 : 32;

  uint32_t key_products[kRowTiles][kDim / 16][4];
  uint32_t value_products[kMode == TriadicMode::kKeys ? kRowTiles : 1][kDim / 16][4];
  OnlineSoftmax softmax;
  float inner_sums[kRowTiles][kDim / 8][4];
  float added_maximum;  // softmax.maximum when sums were last added to those in shared memory

  // Clears all sums. In shared memory, lane t < 4 handles columns 8 n + 2 t and 8 n + 2 t + 1 of the warp's sums.
  __device__ __forceinline__ void Clear(WarpResults<kDim>& results) {
    added_maximum = -kTriadicInfinity;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      if (lane < 4) results.sums[threadIdx.x / 32][n * 8 + lane * 2] = 0;
      if (lane < 4) results.sums[threadIdx.x / 32][n * 8 + lane * 2 + 1] = 0;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) inner_sums[m][n][i] = 0;
      }
    }
  }

  __device__ __forceinline__ void Scale(float factor) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) inner_sums[m][n][i] *= factor;
      }
    }
  }

  // Turns the logits of kRows inner rows into weights, as PlainPass::Weigh does. Only the first `count` of these rows
  // exist. `values` is the shared-memory address of their values. `warp_terms`, of the warp's rows, is read every time
  // to save registers.
  __device__ __forceinline__ void Weigh(int32_t count, uint32_t values, const RowTerms* warp_terms,
                                        float (&logits)[kRowTiles][kRows / 8][4]) {
    RowTerms terms[kRowTiles][2];  // of rows lane / 4 and lane / 4 + 8
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      terms[m][0] = warp_terms[m * 16 + threadIdx.x % 32 / 4];
      terms[m][1] = warp_terms[m * 16 + threadIdx.x % 32 / 4 + 8];
    }
    if (count < kRows) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (n * 8 + static_cast<int>(threadIdx.x % 4) * 2 + i % 2 < count) continue;
#pragma unroll
          for (int m = 0; m < kRowTiles; ++m) logits[m][n][i] = -kTriadicInfinity;
        }
      }
    }
    float reference = 0;
    if constexpr (kMode == TriadicMode::kOutput) {
      float largest = -kTriadicInfinity;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) largest = fmaxf(largest, logits[m][n][i] - terms[m][i / 2].lse);
        }
      }
      if (const float factor = softmax.Raise(largest); factor != 1) Scale(factor);
      reference = softmax.Reference(kShift);
    }
    float products[kMode == TriadicMode::kKeys ? kRowTiles : 1][kRows / 8][4] = {};
    if constexpr (kMode == TriadicMode::kKeys) {
      MultiplyRows<T, kDim, kRowTiles, kRows>(value_products, values, products);
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& weight = logits[m][n][i];
          weight = exp2f(weight - terms[m][i / 2].lse - reference);
          if constexpr (kMode == TriadicMode::kOutput) softmax.denominator += weight;
          if constexpr (kMode == TriadicMode::kKeys) weight *= products[m][n][i] - terms[m][i / 2].delta;
        }
      }
    }
  }

  // Adds a tile's pairs. Only the first `count` inner rows of the tile exist.
  __device__ __forceinline__ void AddTile(TensorTile<T, kDim>& tile, int32_t count, const RowTerms* terms) {
    const auto keys = static_cast<uint32_t>(__cvta_generic_to_shared(&tile.keys[0][0]));
    const auto values = static_cast<uint32_t>(__cvta_generic_to_shared(&tile.values[0][0]));
#pragma unroll 1
    for (int begin = 0; begin < kTensorInner && begin < count; begin += kRows) {
      const uint32_t offset = begin * kTensorPitch<kDim> * sizeof(T);
      float logits[kRowTiles][kRows / 8][4] = {};
      MultiplyRows<T, kDim, kRowTiles, kRows>(key_products, keys + offset, logits);
      Weigh(count - begin, values + offset, terms, logits);
      const uint32_t added = kMode == TriadicMode::kKeys ? keys : values;
      AddWeightedRows<T, kDim, kRowTiles, kRows>(logits, added + offset, inner_sums);
    }
  }

  // Adds row * inner_sum for the warp's rows, from `row` on, to the warp's sums, and clears inner_sums.
  __device__ __forceinline__ void AddRows(const DeviceRows<T>& rows, int32_t row, WarpResults<kDim>& results) {
    const int lane = threadIdx.x % 32;
    const float factor = added_maximum == softmax.maximum ? 1.0f : exp2f(added_maximum - softmax.maximum);
    added_maximum = softmax.maximum;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int32_t column = n * 8 + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = 0;
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          const int32_t at = row + m * 16 + lane / 4;
          sum = __fmaf_rn(rows.Value(at, column + i), inner_sums[m][n][i], sum);
          sum = __fmaf_rn(rows.Value(at + 8, column + i), inner_sums[m][n][i + 2], sum);
          inner_sums[m][n][i] = inner_sums[m][n][i + 2] = 0;
        }
#pragma unroll
        for (int offset = 16; offset >= 4; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        float& target = results.sums[threadIdx.x / 32][column + i];
        if (lane < 4) target = __fmaf_rn(target, factor, sum);
      }
    }
  }
};

// The launch bounds give the thread blocks per multiprocessor, because without this number the assembler would use
// fewer registers and spill.
template <class T, int kDim, int kRowTiles, TriadicMode kMode>
__global__ void __launch_bounds__(kTriadicThreads, kDim == 32 ? 3 : 2)
    TensorPassKernel(const __grid_constant__ TriadicParams params) {
  extern __shared__ __align__(16) char shared[];
  auto& memory = *reinterpret_cast<TensorMemory<T, kDim>*>(shared);
  constexpr int kWarpRows = 16 * kRowTiles;
  constexpr int kBlockRows = kWarpRows * kTriadicWarps;
  const TriadicRoles& roles = params.roles;
  const int64_t owner = blockIdx.x;
  const auto max_rows = static_cast<uint32_t>(roles.owner.max_rows);  // a grid has fewer than 2^31 of them
  const int64_t problem = blockIdx.x / max_rows;
  if (blockIdx.x % max_rows >= LengthOf(params, roles.owner, problem)) {
    WriteNothing<T, kMode>(params, owner);
    return;
  }
  const int32_t num_rows = LengthOf(params, roles.rows, problem);
  if (threadIdx.x == 0) {
    memory.row_keys = RowsOf<T>(params, roles.rows.keys, roles.rows, problem);
    memory.row_values = RowsOf<T>(params, roles.rows.values, roles.rows, problem);
  }
  const DeviceRows<T> inner_keys = RowsOf<T>(params, roles.inner.keys, roles.inner, problem);
  const DeviceRows<T> inner_values = RowsOf<T>(params, roles.inner.values, roles.inner, problem);
  for (int column = threadIdx.x; column < kDim; column += kTriadicThreads) {
    const bool present = column < params.dim;
    const int64_t element = owner * params.dim + column;
    const float key = present ? Widen(static_cast<const T*>(roles.owner.keys)[element]) : 0.0f;
    memory.owner_keys[column] = key * KeyFactors::Of(params).owner;
    if constexpr (kMode == TriadicMode::kKeys) {
      memory.owner_values[column] = present ? Widen(static_cast<const T*>(roles.owner.values)[element]) : 0.0f;
    }
  }

  TensorState<T, kDim, kRowTiles, kMode> state;
  state.Clear(memory.results);
  const int32_t num_inner_tiles = (inner_keys.num_rows + kTensorInner - 1) / kTensorInner;
  const int32_t num_row_tiles = (num_rows + kBlockRows - 1) / kBlockRows;
  const int32_t num_tiles = num_inner_tiles * num_row_tiles;
  int32_t inner_tile = 0;
  int32_t warp_row = static_cast<int32_t>(threadIdx.x / 32) * kWarpRows;
  if (num_tiles > 0) {
    CopyTile<T, kDim>(inner_keys, 0, params.aligned, memory.tiles[0].keys);
    CopyTile<T, kDim>(inner_values, 0, params.aligned, memory.tiles[0].values);
  }
  cuda::sm80::CommitCopies();
  for (int32_t tile = 0; tile < num_tiles; ++tile) {
    __syncthreads();  // all warps are done with the tile that the next copy overwrites
    if (tile + 1 < num_tiles) {
      const int32_t next = (inner_tile + 1 < num_inner_tiles ? inner_tile + 1 : 0) * kTensorInner;
      CopyTile<T, kDim>(inner_keys, next, params.aligned, memory.tiles[(tile + 1) % 2].keys);
      CopyTile<T, kDim>(inner_values, next, params.aligned, memory.tiles[(tile + 1) % 2].values);
    }
    cuda::sm80::CommitCopies();
    cuda::sm80::WaitCopies<1>();
    __syncthreads();
    if (inner_tile == 0) {
      const int lane = threadIdx.x % 32;
      memory.terms[threadIdx.x / 32][lane] = RowTerms::Of<kMode>(params, problem, owner, warp_row + lane, num_rows);
      __syncwarp();
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const int32_t row = warp_row + m * 16;
        MakeProducts<T, kDim>(memory.row_keys, row, KeyFactors::Of(params).rows, memory.owner_keys,
                              state.key_products[m]);
        if constexpr (kMode == TriadicMode::kKeys) {
          MakeProducts<T, kDim>(memory.row_values, row, 1, memory.owner_values, state.value_products[m]);
        }
      }
    }
    const int32_t count = inner_keys.num_rows - inner_tile * kTensorInner;
    if (warp_row < num_rows) state.AddTile(memory.tiles[tile % 2], count, memory.terms[threadIdx.x / 32]);
    if (++inner_tile == num_inner_tiles) {
      state.AddRows(kMode == TriadicMode::kKeys ? memory.row_keys : memory.row_values, warp_row, memory.results);
      inner_tile = 0;
      warp_row += kBlockRows;
    }
  }
  cuda::sm80::WaitCopies<0>();
  if constexpr (kMode == TriadicMode::kOutput) LeaveSoftmax(state.softmax, memory.results);
  __syncthreads();
  WriteResult<T, kDim, kMode>(params, owner, memory.results, state.kShift);
}

template <class T, int kDim, int kRowTiles, TriadicMode kMode>
cudaError_t LaunchTensorKernel(const TriadicParams& params, cudaStream_t stream) {
  constexpr size_t kBytes = sizeof(TensorMemory<T, kDim>);
  return LaunchRows(TensorPassKernel<T, kDim, kRowTiles, kMode>, kBytes, params, stream);
}

// Chooses the kernel by the number of columns. With more than 64 columns, registers have room for only 16 rows per
// warp.
template <class T, TriadicMode kMode>
cudaError_t LaunchTensorPass(const TriadicParams& params, cudaStream_t stream) {
  if (params.dim <= 32) return LaunchTensorKernel<T, 32, 2, kMode>(params, stream);
  if (params.dim <= 64) return LaunchTensorKernel<T, 64, 2, kMode>(params, stream);
  return LaunchTensorKernel<T, 128, 1, kMode>(params, stream);
}

}  // namespace maxsim::library
