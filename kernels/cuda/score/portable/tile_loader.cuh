// Copies chunks of rows from global memory into a stage of the pipeline in shared memory, with all threads of a block.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/portable/ptx/copy_async.cuh"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm80 {

// Starts copying chunk `chunk` of `num_rows` consecutive rows (of at most kMaxRows) to `shared`. Exactly the rows' own
// bytes are read, nothing beyond the last row. If a row has only half of its last step, the other half is set to zero.
// Shared memory past the rows and past their last steps keeps its old content, and no result depends on it.
template <int kThreads, int kMaxRows, int kChunkBytes>
__device__ __forceinline__ void LoadChunk(uint32_t shared, const uint8_t* rows, int num_rows, int row_bytes, int chunk,
                                          int thread) {
  constexpr int kVectorsOfRow = kChunkBytes / 16;
  constexpr int kRowsAtOnce = kThreads / kVectorsOfRow;
  constexpr int kPitch = kChunkBytes + 16;
  static_assert(kThreads % kVectorsOfRow == 0 && kMaxRows % kRowsAtOnce == 0);
  const int column = (thread % kVectorsOfRow) * 16;
  const int begin = chunk * kChunkBytes + column;
  const int end_of_steps = (row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
  if (begin >= end_of_steps) return;
  const bool present = begin < row_bytes;
  const int first = thread / kVectorsOfRow;
  const uint8_t* source = rows + static_cast<int64_t>(first) * row_bytes + (present ? begin : 0);
  uint32_t target = shared + first * kPitch + column;
#pragma unroll
  for (int row = 0; row < kMaxRows; row += kRowsAtOnce) {
    if (row + first < num_rows) CopyAsync16OrZero(target, source, present);
    source += static_cast<int64_t>(kRowsAtOnce) * row_bytes;
    target += kRowsAtOnce * kPitch;
  }
}

// Starts copying whole rows of any width to `shared`, one row every `pitch` bytes.
template <int kThreads>
__device__ __forceinline__ void LoadRows(uint32_t shared, int pitch, const uint8_t* rows, int num_rows, int row_bytes,
                                         int thread) {
  const int vectors = (row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes / 16;
  for (int i = thread; i < num_rows * vectors; i += kThreads) {
    const int row = i / vectors;
    const int column = (i - row * vectors) * 16;
    const bool present = column < row_bytes;
    CopyAsync16OrZero(shared + row * pitch + column,
                      rows + static_cast<int64_t>(row) * row_bytes + (present ? column : 0), present);
  }
}

}  // namespace maxsim::cuda::sm80
