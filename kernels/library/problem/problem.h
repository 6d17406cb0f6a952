// A call of the library as its backends take it: members are read whatever version of maxsim.h the caller has, and
// shapes are checked.
#pragma once

#include <cstdint>

#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/status.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// A call whose shapes fit together. It borrows the caller's memory.
struct Problem {
  maxsim_call call = {};
  maxsim_tokens queries = {};
  maxsim_tokens documents = {};
  int64_t list_length = 0;  // pairs of each query, which follow one another
  int64_t num_pairs = 0;

  ScalarType type() const { return static_cast<ScalarType>(queries.type); }
  int32_t dim() const { return queries.dim; }
  int64_t num_argmax() const { return num_pairs * queries.max_tokens; }

  // Returns whether similarities with one document differ by a scale from token to token, so that it counts before the
  // maximum is taken.
  bool scales_document_tokens() const {
    return type() == ScalarType::kI8 && documents.scale_of == MAXSIM_SCALE_PER_TOKEN;
  }
};

// What the rows of documents are: vectors of maxsim_tokens::rows, or codes that another structure has.
enum class DocumentRows { kVectors, kCoded };

// Reads what `call` points to and checks every number of it, without reading rows, offsets, lengths, masks, scales,
// weights or candidates.
Status ReadProblem(const maxsim_call* call, Problem* problem, DocumentRows document_rows = DocumentRows::kVectors);

// Reads the caller's structure and checks it against the problem.
Status ReadGradients(const Problem& problem, const maxsim_gradients* given, maxsim_gradients* gradients);

}  // namespace maxsim::library
