// A call in the form that kernels take.
#pragma once

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

}  // namespace maxsim::library
