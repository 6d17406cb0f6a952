// The kernels of the backward pass: parameters and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/library/cuda/device_problem.h"
#include "kernels/library/cuda/sort_matches.h"

namespace maxsim::library {

// Columns of a row that one warp sums up.
inline constexpr int32_t kBackwardColumns = 128;

struct BackwardParams {
  DeviceProblem problem;
  const int32_t* argmax;         // [pairs, queries' max_tokens]
  const float* score_gradients;  // [pairs]
  void* query_gradients;         // [queries' num_rows, dim] or null
  void* document_gradients;      // [documents' num_rows, dim] or null
  float* weight_gradients;       // [queries' num_rows] or null
  bool aligned;                  // whether 4 columns of every matrix begin at a multiple of their size

  // Used only if SortsDocumentMatches(): the entries of the argmax, sorted by the document row to which they point.
  // Entries for the same row are in ascending order.
  SortedMatches matches;
};

// Returns the number of entries of the argmax.
inline int64_t NumEntries(const DeviceProblem& problem) { return problem.num_pairs * problem.queries.max_tokens; }

// Writes query_gradients and weight_gradients, unless they are null.
cudaError_t LaunchQueryGradients(const BackwardParams& params, cudaStream_t stream);

// Returns whether document gradients need the matches sorted by document row, in the workspace. Not needed if every
// query is scored against every document and no two documents share a row: then a thread block finds a document's
// matches directly in the argmax.
inline bool SortsDocumentMatches(const DeviceProblem& problem) {
  return problem.pairing != MAXSIM_ALL || problem.documents.layout == MAXSIM_SCATTERED;
}

// Write document_gradients. Both functions add in the same order; LaunchSortedDocumentGradients sorts the matches
// first.
cudaError_t LaunchDocumentGradients(const BackwardParams& params, cudaStream_t stream);
cudaError_t LaunchSortedDocumentGradients(BackwardParams params, cudaStream_t stream);

}  // namespace maxsim::library
