// Computes a sum over columns for each pair of rows, in FP32, for operators whose rows are too long for registers. A
// thread block of 256 threads computes a tile of 128 x 64 pairs. Each thread computes 8 x 4 pairs of the tile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace maxsim::library {

inline constexpr int kPairThreads = 256;
inline constexpr int kPairRowsX = 128;
inline constexpr int kPairRowsY = 64;
inline constexpr int kPairColumns = 32;  // columns in shared memory at a time
inline constexpr int kPairsX = 8;        // rows of a thread
inline constexpr int kPairsY = 4;

// The tiles of x and y, stored column by column, so that a thread reads its rows with loads of 16 bytes. A warp fills a
// tile row by row; the padding of 16 bytes per column spreads the stores of one row over eight banks.
struct PairTileMemory {
  float x[kPairColumns][kPairRowsX + 4];
  float y[kPairColumns][kPairRowsY + 4];
};

// A thread has the x rows FirstPairX() + 0 .. 7 of the tile, and the y rows FirstPairY() + 0 .. 3. The 16 threads with
// the same x rows are neighbouring lanes of a warp.
__device__ __forceinline__ int FirstPairX() { return threadIdx.x / 16 * kPairsX; }
__device__ __forceinline__ int FirstPairY() { return threadIdx.x % 16 * kPairsY; }

// Computes sums[i][k] for the thread's x row i and y row k: starting from 0, sum = add(x, y, sum) for each column in
// ascending order, where x and y are the elements of the two rows. read_x(row, column) and read_y(row, column) must
// return elements, where `row` is a row of the tile, and 0 for columns from `dim` on. All threads of the block must
// call SumPairs, which begins with a barrier.
template <class ReadX, class ReadY, class Add>
__device__ __forceinline__ void SumPairs(PairTileMemory& memory, int32_t dim, ReadX read_x, ReadY read_y, Add add,
                                         float (&sums)[kPairsX][kPairsY]) {
#pragma unroll
  for (int i = 0; i < kPairsX; ++i) {
#pragma unroll
    for (int k = 0; k < kPairsY; ++k) sums[i][k] = 0;
  }
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int32_t begin = 0; begin < dim; begin += kPairColumns) {
    __syncthreads();
#pragma unroll 4
    for (int row = warp; row < kPairRowsX; row += kPairThreads / 32) memory.x[lane][row] = read_x(row, begin + lane);
#pragma unroll 4
    for (int row = warp; row < kPairRowsY; row += kPairThreads / 32) memory.y[lane][row] = read_y(row, begin + lane);
    __syncthreads();
    const int num_columns = min(dim - begin, kPairColumns);
#pragma unroll 4
    for (int column = 0; column < num_columns; ++column) {
      const float4 x0 = *reinterpret_cast<const float4*>(&memory.x[column][FirstPairX()]);
      const float4 x1 = *reinterpret_cast<const float4*>(&memory.x[column][FirstPairX() + 4]);
      const float4 y0 = *reinterpret_cast<const float4*>(&memory.y[column][FirstPairY()]);
      const float x[kPairsX] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
      const float y[kPairsY] = {y0.x, y0.y, y0.z, y0.w};
#pragma unroll
      for (int i = 0; i < kPairsX; ++i) {
#pragma unroll
        for (int k = 0; k < kPairsY; ++k) sums[i][k] = add(x[i], y[k], sums[i][k]);
      }
    }
  }
}

}  // namespace maxsim::library
