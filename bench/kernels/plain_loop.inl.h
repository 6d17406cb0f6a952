// The loop of both functions of plain_loop.h. It calls no inline functions of other headers: such a function would be
// compiled with AVX2 flags here, and this copy could be linked into other files.
#pragma once

#include <cstdint>

namespace maxsim::bench {
namespace {

void Scores(const float* query, int64_t num_query_tokens, const float* tokens, const int64_t* offsets,
            int64_t num_documents, int64_t dim, float* scores) {
  for (int64_t document = 0; document < num_documents; ++document) {
    float score = 0;
    for (int64_t i = 0; i < num_query_tokens; ++i) {
      float best = -3e38f;
      for (int64_t j = offsets[document]; j < offsets[document + 1]; ++j) {
        float similarity = 0;
        for (int64_t k = 0; k < dim; ++k) similarity += query[i * dim + k] * tokens[j * dim + k];
        best = similarity > best ? similarity : best;
      }
      score += best;
    }
    scores[document] = score;
  }
}

}  // namespace
}  // namespace maxsim::bench
