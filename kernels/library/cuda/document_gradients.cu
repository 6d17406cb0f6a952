// Gradients of documents: matches are sorted by the row that they point to, and each row adds up its own, in the order
// of pairs and query tokens. No addition is atomic.
#include <cuda_runtime.h>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"

namespace maxsim::library {
namespace {

constexpr int kSortThreads = 256;
constexpr int kDocumentGradientThreads = 128;
constexpr int kDocumentGradientWarps = kDocumentGradientThreads / 32;

// Returns the bits of keys up to num_rows, which is the key of an entry without a match.
int KeyBits(int64_t num_rows) {
  int bits = 1;
  while (num_rows >> bits != 0) ++bits;
  return bits;
}

// Writes the row that each entry of the argmax points to. Entries of a pair whose gradient is 0 have none.
__global__ void __launch_bounds__(kSortThreads)
    MakeKeysKernel(const __grid_constant__ BackwardParams params, int64_t num_entries) {
  const DeviceProblem& problem = params.problem;
  const int64_t entry = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (entry >= num_entries) return;
  const int32_t match = params.argmax[entry];
  int64_t row = problem.documents.num_rows;
  const int64_t pair = entry / problem.queries.max_tokens;
  if (match >= 0 && params.score_gradients[pair] != 0) {
    row = FirstRow(problem.documents, DocumentAt(problem, pair)) + match;
  }
  params.keys[entry] = static_cast<uint32_t>(row);
  params.entries[entry] = static_cast<uint32_t>(entry);
}

// Writes where each row's matches begin and end. Rows without a match keep the zeros that are there.
__global__ void __launch_bounds__(kSortThreads)
    FindRowsKernel(const __grid_constant__ BackwardParams params, int64_t num_entries) {
  const int64_t idx = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (idx >= num_entries) return;
  const uint32_t row = params.keys[idx];
  if (row >= params.problem.documents.num_rows) return;
  if (idx == 0 || params.keys[idx - 1] != row) params.row_begin[row] = static_cast<uint32_t>(idx);
  if (idx + 1 == num_entries || params.keys[idx + 1] != row) params.row_end[row] = static_cast<uint32_t>(idx + 1);
}

// A warp has 128 columns of a row.
template <class T>
__global__ void __launch_bounds__(kDocumentGradientThreads)
    DocumentGradientsKernel(const __grid_constant__ BackwardParams params) {
  const DeviceProblem& problem = params.problem;
  const maxsim_tokens& queries = problem.queries;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kDocumentGradientWarps + threadIdx.x / 32;
  if (row >= problem.documents.num_rows) return;
  const int32_t column = blockIdx.y * kBackwardColumns + (threadIdx.x % 32) * 4;
  const uint32_t end = params.row_end[row];
  Columns sum;
#pragma unroll 4
  for (uint32_t idx = params.row_begin[row]; idx < end; ++idx) {
    const int64_t entry = params.entries[idx];
    const int64_t pair = entry / queries.max_tokens;
    const int64_t query_row = FirstRow(queries, pair / problem.list_length) + entry % queries.max_tokens;
    const float weight = problem.weights == nullptr ? 1.0f : problem.weights[query_row];
    sum.Add(__fmul_rn(params.score_gradients[pair], weight),
            ReadColumns<T>(queries.rows, query_row, queries.dim, column, params.aligned));
  }
  WriteColumns<T>(params.document_gradients, row, queries.dim, column, params.aligned, sum);
}

template <class T>
cudaError_t LaunchSums(const BackwardParams& params, cudaStream_t stream) {
  const int64_t num_rows = params.problem.documents.num_rows;
  const auto num_blocks = static_cast<unsigned>((num_rows + kDocumentGradientWarps - 1) / kDocumentGradientWarps);
  const auto num_parts = static_cast<unsigned>((params.problem.queries.dim + kBackwardColumns - 1) / kBackwardColumns);
  return cuda::LaunchKernel(DocumentGradientsKernel<T>, dim3(num_blocks, num_parts), dim3(kDocumentGradientThreads), 0,
                            stream, params);
}

// Leaves the sorted matches in params->keys and params->entries.
cudaError_t SortMatches(BackwardParams* params, cudaStream_t stream) {
  const int64_t num_entries = NumEntries(params->problem);
  const int64_t num_rows = params->problem.documents.num_rows;
  const size_t row_bytes = static_cast<size_t>(num_rows) * sizeof(uint32_t);
  cudaError_t error = cudaMemsetAsync(params->row_begin, 0, row_bytes, stream);
  if (error == cudaSuccess) error = cudaMemsetAsync(params->row_end, 0, row_bytes, stream);
  if (error != cudaSuccess || num_entries == 0) return error;
  const auto num_blocks = static_cast<unsigned>((num_entries + kSortThreads - 1) / kSortThreads);
  error = cuda::LaunchKernel(MakeKeysKernel, dim3(num_blocks), dim3(kSortThreads), 0, stream, *params, num_entries);
  if (error != cudaSuccess) return error;
  cub::DoubleBuffer<uint32_t> keys(params->keys, params->other_keys);
  cub::DoubleBuffer<uint32_t> entries(params->entries, params->other_entries);
  size_t sort_bytes = params->sort_bytes;
  error = cub::DeviceRadixSort::SortPairs(params->sort_memory, sort_bytes, keys, entries, num_entries, 0,
                                          KeyBits(num_rows), stream);
  if (error != cudaSuccess) return error;
  // The number of the sort's passes says which of the two it ends in.
  params->keys = keys.Current();
  params->entries = entries.Current();
  return cuda::LaunchKernel(FindRowsKernel, dim3(num_blocks), dim3(kSortThreads), 0, stream, *params, num_entries);
}

}  // namespace

cudaError_t SortBytes(int64_t num_entries, int64_t num_rows, size_t* bytes) {
  cub::DoubleBuffer<uint32_t> none;
  return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, num_entries, 0, KeyBits(num_rows));
}

cudaError_t LaunchDocumentGradients(BackwardParams params, cudaStream_t stream) {
  if (params.problem.documents.num_rows == 0) return cudaSuccess;
  if (const cudaError_t error = SortMatches(&params, stream); error != cudaSuccess) return error;
  switch (params.problem.queries.type) {
    case MAXSIM_F32:
      return LaunchSums<float>(params, stream);
    case MAXSIM_F16:
      return LaunchSums<__half>(params, stream);
    default:
      return LaunchSums<__nv_bfloat16>(params, stream);
  }
}

}  // namespace maxsim::library
