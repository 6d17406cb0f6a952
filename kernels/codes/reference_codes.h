// A reference implementation of codes by plain loops. Tests compare encoding, bounds and sums with it. It reads bits
// one by one and adds in FP64.
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

// Returns the cells [dim] that token `token` of the documents has in codes of `shape`.
std::vector<CodeCell> ReferenceCells(const CodeShape& shape, const DocumentsView& documents, int64_t token);

// Returns the norm of a token as encoding finds it: sqrt of the sum of the rotated row's squares, times the document's
// scale for I8 vectors of `document`.
double ReferenceNorm(const CodeShape& shape, const DocumentsView& documents, int64_t document, int64_t token);

// Returns the cells [dim] that are stored for a token. Bits of planes that `codes` does not have are 0.
std::vector<CodeCell> StoredCells(const CodesView& codes, int64_t token);

// A document's bound before it is rounded, as multiples of NominalNorm (CodeBound).
struct ReferenceBound {
  double slope = 0;
  double residual = 0;
  double length = 0;
  double norm = 0;
};

// Computes the bound of document `document` from its vectors and its stored codes. Returns zeros if its scale is 0.
ReferenceBound ReferenceBoundOf(const CodesView& codes, const DocumentsView& documents, int planes, int64_t document);

// The integer sums of a scan for one document (kernels/codes/query_codes.h).
struct ReferenceSums {
  int64_t sum = 0;
  int64_t positive = 0;
};

ReferenceSums ReferenceSumsOf(const CodesView& codes, const QueryCodes& query, int64_t document);

}  // namespace maxsim
