// A pass: the part of a call that one sequence of launches scores. It names documents in device memory, and which
// candidates of each query to score.
#pragma once

#include <cstdint>

#include "kernels/cuda/documents/cuda_documents.h"

namespace maxsim::cuda {

// Borrows the documents until the pass has been scored.
struct ScorePass {
  const CudaDocuments* memory = nullptr;   // the rows, their type and their tensor maps; offsets and scales are below
  const int64_t* offsets = nullptr;        // device memory; the candidates' ordinals or locations are indices into it
  const float* scales = nullptr;           // device memory, indexed as `offsets`; null unless I8
  const CudaCodebook* codebook = nullptr;  // null unless the documents are residual codes
  int64_t first = 0;                       // the pass has `count` candidates of every query, from `first` on
  int64_t count = 0;
  int64_t mean_tokens = 0;      // mean tokens of a document
  int64_t longest_tokens = 0;   // tokens of the longest document; 0: unknown
  int64_t spread_tokens = 0;    // SpreadTokens (kernels/plan/shares.h); 0: unknown
  int64_t document_tokens = 0;  // tokens of every document, if all have equally many and lie in order; else 0

  // Returns the pass over the first `num_candidates` candidates of every query, which are among `documents`.
  static ScorePass Over(const CudaDocuments& documents, int64_t num_candidates);
};

}  // namespace maxsim::cuda
