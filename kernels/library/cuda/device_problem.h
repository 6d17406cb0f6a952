// A call in the form that kernels take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// The members of a Problem that kernels read. Pointers point to device memory.
struct DeviceProblem {
  maxsim_tokens queries;
  maxsim_tokens documents;
  const float* weights;       // [queries' num_rows] or null
  const int64_t* candidates;  // [pairs] or null
  int64_t list_length;
  int64_t num_pairs;
  float empty_score;
  int32_t pairing;
};

inline DeviceProblem DeviceProblemOf(const Problem& problem) {
  return {.queries = problem.queries,
          .documents = problem.documents,
          .weights = problem.call.weights,
          .candidates = problem.call.candidates,
          .list_length = problem.list_length,
          .num_pairs = problem.num_pairs,
          .empty_score = problem.call.empty_score,
          .pairing = problem.call.pairing};
}

// Returns whether each token has a scale, and not each sequence.
inline bool HasTokenScales(const maxsim_tokens& tokens) {
  return tokens.scales != nullptr && tokens.scale_of == MAXSIM_SCALE_PER_TOKEN;
}

// Estimates the mean length of sequences from shapes alone, because lengths are in device memory. The estimate is
// max_tokens for padded sequences, otherwise the rows per sequence, rounded up, and at most max_tokens.
inline int64_t MeanTokens(const maxsim_tokens& tokens) {
  if (tokens.layout == MAXSIM_PADDED || tokens.num_sequences == 0) return tokens.max_tokens;
  return std::min(tokens.max_tokens, (tokens.num_rows + tokens.num_sequences - 1) / tokens.num_sequences);
}

}  // namespace maxsim::library
