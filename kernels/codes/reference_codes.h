// A simple, slow reference implementation of codes, with which tests and the verifier compare cells, bounds and sums.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/codes/codes.h"
#include "kernels/codes/query_codes.h"
#include "kernels/maxsim.h"

namespace maxsim {

// The cell of a coordinate: its sign, and its magnitude cell, 0 .. 7.
struct CodeCell {
  bool positive = false;
  int32_t magnitude = 0;

  friend bool operator==(const CodeCell&, const CodeCell&) = default;
};

// Computes the cells [dim] of token `token` (counted over all documents) for codes of `shape`.
std::vector<CodeCell> ReferenceCells(const CodeShape& shape, const DocumentsView& documents, int64_t token);

// Returns the norm of token `token` of `document`: the length of the rotated row, for I8 vectors times the document's
// scale.
double ReferenceNorm(const CodeShape& shape, const DocumentsView& documents, int64_t document, int64_t token);

// Reads the stored cells [dim] of a token. Bits of planes that `codes` does not have are 0.
std::vector<CodeCell> StoredCells(const CodesView& codes, int64_t token);

// A document's CodeBound before rounding to F16.
struct ReferenceBound {
  double slope = 0;
  double residual = 0;
  double length = 0;
  double norm = 0;
};

// Computes a document's bound for `planes` planes from its vectors and stored codes. Returns zeros if its scale is 0.
ReferenceBound ReferenceBoundOf(const CodesView& codes, const DocumentsView& documents, int planes, int64_t document);

// The integer sums of a scan for one document (kernels/codes/query_codes.h).
struct ReferenceSums {
  int64_t sum = 0;
  int64_t positive = 0;
};

ReferenceSums ReferenceSumsOf(const CodesView& codes, const QueryCodes& query, int64_t document);

}  // namespace maxsim
