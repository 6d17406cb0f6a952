// A call with documents of residual codes in the form that its backends use.
#pragma once

#include <cstdint>

#include "kernels/library/include/maxsim/residual_codes.h"
#include "kernels/library/problem/problem.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// `problem.documents` has no vectors: document row r is decoded from row r of `codes`. Points into the caller's memory.
struct CodedProblem {
  Problem problem;
  maxsim_residual_codes codes = {};

  // Returns the bytes of a row of codes.residuals.
  int64_t packed_row_bytes() const { return int64_t{problem.dim()} * codes.nbits / 8; }
};

// Copies the caller's structures and checks their numbers. Does not read arrays.
Status ReadCodedProblem(const maxsim_call* call, const maxsim_residual_codes* codes, CodedProblem* problem);

// Checks arrays in host memory: offsets, lengths, candidates, and the centroid numbers of tokens that count.
Status CheckHostCodes(const CodedProblem& problem);

}  // namespace maxsim::library
