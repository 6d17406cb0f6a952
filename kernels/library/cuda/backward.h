// The backward pass's kernels: their parameters, their workspace and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/library/cuda/device_problem.h"
#include "kernels/library/cuda/sort_matches.h"

namespace maxsim::library {

// A warp sums up this many columns of a row.
inline constexpr int32_t kBackwardColumns = 128;

struct BackwardParams {
  DeviceProblem problem;
  const int32_t* argmax;         // [pairs, queries' max_tokens]
  const float* score_gradients;  // [pairs]
  void* query_gradients;         // [queries' num_rows, dim] or null
  void* document_gradients;      // [documents' num_rows, dim] or null
  float* weight_gradients;       // [queries' num_rows] or null
  bool aligned;                  // whether 4 columns of every matrix begin at a multiple of their size

  // Where SortsDocumentMatches: the matches by the row of the document that they point to, entries of the argmax in
  // their order.
  SortedMatches matches;
};

// Returns the entries of the argmax.
inline int64_t NumEntries(const DeviceProblem& problem) { return problem.num_pairs * problem.queries.max_tokens; }

// Writes the gradients of queries and weights that are not null.
cudaError_t LaunchQueryGradients(const BackwardParams& params, cudaStream_t stream);

// Returns whether gradients of documents are summed up from sorted matches, which the workspace holds. Otherwise every
// query meets every document and no row belongs to two of them, and a document finds its matches in the argmax.
inline bool SortsDocumentMatches(const DeviceProblem& problem) {
  return problem.pairing != MAXSIM_ALL || problem.documents.layout == MAXSIM_SCATTERED;
}

// Write the gradients of documents, the second by sorting the matches. Both sum up in the same order.
cudaError_t LaunchDocumentGradients(const BackwardParams& params, cudaStream_t stream);
cudaError_t LaunchSortedDocumentGradients(BackwardParams params, cudaStream_t stream);

}  // namespace maxsim::library
