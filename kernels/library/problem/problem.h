// A call of the library in the form that its backends use: read from the structures of any version of maxsim.h, and
// with checked shapes.
#pragma once

#include <cstdint>

#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/status.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// A call whose shapes were checked. Points into the caller's memory.
struct Problem {
  maxsim_call call = {};
  maxsim_tokens queries = {};
  maxsim_tokens documents = {};
  int64_t list_length = 0;  // consecutive pairs of each query
  int64_t num_pairs = 0;

  ScalarType type() const { return static_cast<ScalarType>(queries.type); }
  int32_t dim() const { return queries.dim; }
  int64_t num_argmax() const { return num_pairs * queries.max_tokens; }

  // Returns whether each document token has its own scale, which must be applied before taking the maximum over tokens.
  bool scales_document_tokens() const {
    return documents.scale_of == MAXSIM_SCALE_PER_TOKEN && (type() == ScalarType::kI8 || documents.scales != nullptr);
  }
};

// How the caller passes document rows: as vectors in maxsim_tokens::rows, or as codes in another structure.
enum class DocumentRows { kVectors, kCoded };

// Copies the caller's structures and checks their numbers. Does not read arrays (rows, offsets, lengths, masks, scales,
// weights, candidates).
Status ReadProblem(const maxsim_call* call, Problem* problem, DocumentRows document_rows = DocumentRows::kVectors);

// Copies the caller's structure `given` and checks it against the problem.
Status ReadGradients(const Problem& problem, const maxsim_gradients* given, maxsim_gradients* gradients);

}  // namespace maxsim::library
