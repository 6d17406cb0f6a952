#include "kernels/library/cuda/sort_matches.h"

#include <cuda_runtime.h>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::library {
namespace {

constexpr int kFindRowsThreads = 256;

// Returns the number of bits of keys. The largest key is num_rows, which stands for no match.
int KeyBits(int64_t num_rows) {
  int bits = 1;
  while (num_rows >> bits != 0) ++bits;
  return bits;
}

// Writes where each row's matches begin and end. Rows without a match keep the 0 that SortMatches has written for both.
__global__ void __launch_bounds__(kFindRowsThreads)
    FindRowsKernel(const __grid_constant__ SortedMatches matches, int64_t num_entries, int64_t num_rows) {
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * kFindRowsThreads + threadIdx.x;
  if (idx >= num_entries) return;
  const uint32_t row = matches.keys[idx];
  if (row >= num_rows) return;
  if (idx == 0 || matches.keys[idx - 1] != row) matches.row_begin[row] = static_cast<uint32_t>(idx);
  if (idx + 1 == num_entries || matches.keys[idx + 1] != row) matches.row_end[row] = static_cast<uint32_t>(idx + 1);
}

}  // namespace

cudaError_t SortBytes(int64_t num_entries, int64_t num_rows, size_t* bytes) {
  cub::DoubleBuffer<uint32_t> none;
  return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, num_entries, 0, KeyBits(num_rows));
}

cudaError_t SortMatches(SortedMatches* matches, int64_t num_entries, int64_t num_rows, cudaStream_t stream) {
  const size_t row_bytes = static_cast<size_t>(num_rows) * sizeof(uint32_t);
  cudaError_t error = cudaMemsetAsync(matches->row_begin, 0, row_bytes, stream);
  if (error == cudaSuccess) error = cudaMemsetAsync(matches->row_end, 0, row_bytes, stream);
  if (error != cudaSuccess || num_entries == 0) return error;
  cub::DoubleBuffer<uint32_t> keys(matches->keys, matches->other_keys);
  cub::DoubleBuffer<uint32_t> entries(matches->entries, matches->other_entries);
  size_t sort_bytes = matches->sort_bytes;
  error = cub::DeviceRadixSort::SortPairs(matches->sort_memory, sort_bytes, keys, entries, num_entries, 0,
                                          KeyBits(num_rows), stream);
  if (error != cudaSuccess) return error;
  // The sort alternates between two buffers; takes those in which the result ended up.
  matches->keys = keys.Current();
  matches->entries = entries.Current();
  matches->other_keys = keys.Alternate();
  matches->other_entries = entries.Alternate();
  const auto num_blocks = static_cast<unsigned>((num_entries + kFindRowsThreads - 1) / kFindRowsThreads);
  return cuda::LaunchKernel(FindRowsKernel, dim3(num_blocks), dim3(kFindRowsThreads), 0, stream, *matches, num_entries,
                            num_rows);
}

}  // namespace maxsim::library
