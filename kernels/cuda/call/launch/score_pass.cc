#include "kernels/cuda/call/launch/score_pass.h"

#include <algorithm>

namespace maxsim::cuda {

ScorePass ScorePass::Over(const CudaDocuments& documents, int64_t num_candidates) {
  return {.memory = &documents,
          .offsets = documents.device_offsets(),
          .scales = documents.device_scales(),
          .codebook = documents.codebook(),
          .count = num_candidates,
          .mean_tokens = documents.num_tokens() / std::max<int64_t>(documents.num_documents(), 1),
          .longest_tokens = documents.longest_tokens(),
          .spread_tokens = documents.spread_tokens(),
          .document_tokens = documents.document_tokens()};
}

}  // namespace maxsim::cuda
