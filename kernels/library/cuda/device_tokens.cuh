// Reads maxsim_tokens (queries or documents) in device memory: the first row and the number of rows of each sequence.
#pragma once

#include <cstdint>

#include "kernels/library/cuda/device_problem.h"
#include "kernels/library/include/maxsim/maxsim.h"

namespace maxsim::library {

// Returns element `idx` of offsets or lengths.
__device__ __forceinline__ int64_t IndexAt(const maxsim_tokens& tokens, const void* indices, int64_t idx) {
  return tokens.index_type == MAXSIM_INT32 ? static_cast<const int32_t*>(indices)[idx]
                                           : static_cast<const int64_t*>(indices)[idx];
}

// Returns the first row of a sequence.
__device__ __forceinline__ int64_t FirstRow(const maxsim_tokens& tokens, int64_t sequence) {
  return tokens.layout == MAXSIM_PADDED ? sequence * tokens.max_tokens : IndexAt(tokens, tokens.offsets, sequence);
}

// Returns the number of rows of a sequence, including those that do not count.
__device__ __forceinline__ int32_t NumRows(const maxsim_tokens& tokens, int64_t sequence) {
  if (tokens.layout == MAXSIM_PACKED) {
    return static_cast<int32_t>(IndexAt(tokens, tokens.offsets, sequence + 1) -
                                IndexAt(tokens, tokens.offsets, sequence));
  }
  return static_cast<int32_t>(tokens.lengths == nullptr ? tokens.max_tokens
                                                        : IndexAt(tokens, tokens.lengths, sequence));
}

// Returns the document of a pair.
__device__ __forceinline__ int64_t DocumentAt(const DeviceProblem& problem, int64_t pair) {
  switch (problem.pairing) {
    case MAXSIM_ALL:
      return pair % problem.list_length;
    case MAXSIM_PAIRS:
      return pair;
    default:
      return problem.candidates == nullptr ? pair : problem.candidates[pair];
  }
}

}  // namespace maxsim::library
