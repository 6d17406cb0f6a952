// The backward pass's kernels: their parameters, their workspace and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/library/cuda/device_problem.h"

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

  // The matches sorted by the row of the document that they point to, stably: entries of the argmax in their order.
  // Row r of the documents has matches row_begin[r] .. row_end[r] - 1.
  uint32_t* keys;           // [entries] the row, or num_rows for an entry without a match
  uint32_t* entries;        // [entries] indices into the argmax
  uint32_t* other_keys;     // [entries] where the sort puts keys on every other pass
  uint32_t* other_entries;  // [entries] the entries beside them
  uint32_t* row_begin;      // [documents' num_rows]
  uint32_t* row_end;        // [documents' num_rows]
  void* sort_memory;
  size_t sort_bytes;
};

// Returns the entries of the argmax.
inline int64_t NumEntries(const DeviceProblem& problem) { return problem.num_pairs * problem.queries.max_tokens; }

// Writes the bytes of BackwardParams::sort_memory for so many entries.
cudaError_t SortBytes(int64_t num_entries, int64_t num_rows, size_t* bytes);

// Writes the gradients of queries and weights that are not null.
cudaError_t LaunchQueryGradients(const BackwardParams& params, cudaStream_t stream);

// Sorts the matches and writes the gradients of documents.
cudaError_t LaunchDocumentGradients(BackwardParams params, cudaStream_t stream);

}  // namespace maxsim::library
