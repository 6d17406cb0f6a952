// Compares stored codes with codes computed from the vectors again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codes/codes.h"
#include "kernels/maxsim.h"
#include "kernels/thread_pool.h"

namespace maxsim::collection {

// The first error in the codes of a document.
struct WrongCode {
  int64_t document = 0;
  std::string what;  // "token 3, column 5: plane 1 has the bit 0, expected 1"
};

struct WrongCodes {
  int64_t num_documents = 0;         // whose codes are wrong
  std::vector<WrongCode> documents;  // the first `max_kept` of them, ascending
};

// Computes the codes of every document again in FP64 (kernels/codes/reference_codes.h), and compares bits, factors,
// scales and bounds with the stored ones. A bound is wrong if it is below the exact one, or further above it than
// rounding explains. Skips documents with values that no token may have, such as NaN.
WrongCodes FindWrongCodes(const CodesView& codes, const DocumentsView& documents, size_t max_kept, ThreadPool& pool);

}  // namespace maxsim::collection
