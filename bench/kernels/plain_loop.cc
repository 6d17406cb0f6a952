#include "bench/kernels/plain_loop.h"
#include "bench/kernels/plain_loop.inl.h"

namespace maxsim::bench {

void PlainLoopScores(const float* query, int64_t num_query_tokens, const float* tokens, const int64_t* offsets,
                     int64_t num_documents, int64_t dim, float* scores) {
  Scores(query, num_query_tokens, tokens, offsets, num_documents, dim, scores);
}

}  // namespace maxsim::bench
