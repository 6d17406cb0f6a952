// Gradients of documents for calls in which queries have different documents. Matches are sorted by document row, and a
// warp adds up the matches of one row in the order of pairs and query tokens, without atomic additions.
#include <cuda_runtime.h>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/backward.h"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/float_type.cuh"
#include "kernels/library/cuda/gradient_rows.cuh"

namespace maxsim::library {
namespace {

constexpr int kSortThreads = 256;
constexpr int kRowThreads = 128;
constexpr int kRowWarps = kRowThreads / 32;

// Writes the document row of each entry of the argmax as its key. An entry without a match, or of a pair whose gradient
// is 0, gets the number of rows, because it adds nothing.
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
  params.matches.keys[entry] = static_cast<uint32_t>(row);
  params.matches.entries[entry] = static_cast<uint32_t>(entry);
}

// A warp computes 128 columns of a row.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    SortedDocumentGradientsKernel(const __grid_constant__ BackwardParams params) {
  const DeviceProblem& problem = params.problem;
  const maxsim_tokens& queries = problem.queries;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowWarps + threadIdx.x / 32;
  if (row >= problem.documents.num_rows) return;
  const int32_t column = blockIdx.y * kBackwardColumns + (threadIdx.x % 32) * 4;
  const uint32_t end = params.matches.row_end[row];
  Columns sum;
#pragma unroll 4
  for (uint32_t idx = params.matches.row_begin[row]; idx < end; ++idx) {
    const int64_t entry = params.matches.entries[idx];
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
  const auto num_blocks = static_cast<unsigned>((num_rows + kRowWarps - 1) / kRowWarps);
  const auto num_parts = static_cast<unsigned>((params.problem.queries.dim + kBackwardColumns - 1) / kBackwardColumns);
  return cuda::LaunchKernel(SortedDocumentGradientsKernel<T>, dim3(num_blocks, num_parts), dim3(kRowThreads), 0, stream,
                            params);
}

// Leaves the sorted matches in params->matches.
cudaError_t SortDocumentMatches(BackwardParams* params, cudaStream_t stream) {
  const int64_t num_entries = NumEntries(params->problem);
  if (num_entries > 0) {
    const auto num_blocks = static_cast<unsigned>((num_entries + kSortThreads - 1) / kSortThreads);
    const cudaError_t error =
        cuda::LaunchKernel(MakeKeysKernel, dim3(num_blocks), dim3(kSortThreads), 0, stream, *params, num_entries);
    if (error != cudaSuccess) return error;
  }
  return SortMatches(&params->matches, num_entries, params->problem.documents.num_rows, stream);
}

}  // namespace

cudaError_t LaunchSortedDocumentGradients(BackwardParams params, cudaStream_t stream) {
  if (const cudaError_t error = SortDocumentMatches(&params, stream); error != cudaSuccess) return error;
  return WithFloatType(params.problem.queries.type,
                       [&](auto zero) { return LaunchSums<decltype(zero)>(params, stream); });
}

}  // namespace maxsim::library
