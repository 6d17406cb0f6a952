// A call over documents of residual codes, in the form that its backends use.
#pragma once

#include <cstdint>

#include "kernels/library/include/maxsim/residual_codes.h"
#include "kernels/library/problem/problem.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// The documents of `problem` have no rows: document row r is decoded from row r of `codes`. Borrows the caller's
// memory.
struct CodedProblem {
  Problem problem;
  maxsim_residual_codes codes = {};

  // Returns the bytes of a row of codes.residuals.
  int64_t packed_row_bytes() const { return int64_t{problem.dim()} * codes.nbits / 8; }
};

// Reads what `call` and `codes` point to and checks every number of them, without reading arrays.
Status ReadCodedProblem(const maxsim_call* call, const maxsim_residual_codes* codes, CodedProblem* problem);

// Checks offsets, lengths, candidates and the centroid numbers of tokens that count, which lie in host memory.
Status CheckHostCodes(const CodedProblem& problem);

}  // namespace maxsim::library
