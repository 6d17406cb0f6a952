// The plain loops with which the CPU backend is compared: MaxSim in its most obvious form.
#pragma once

#include <cstdint>

namespace maxsim::bench {

// Computes scores[n] = sum_i max_j <query_i, document_n,j> in FP32. Documents are ragged: `offsets` has num_documents +
// 1 elements.
using PlainLoop = void (*)(const float* query, int64_t num_query_tokens, const float* tokens, const int64_t* offsets,
                           int64_t num_documents, int64_t dim, float* scores);

// The plain loop, compiled with -O3 like the rest of the build.
void PlainLoopScores(const float* query, int64_t num_query_tokens, const float* tokens, const int64_t* offsets,
                     int64_t num_documents, int64_t dim, float* scores);

// The loop of PlainLoopScores, compiled with -O3 -ffast-math -mavx2 -mfma: the compiler may reorder the sum and use
// vectors. Needs a processor with AVX2.
void FastMathLoopScores(const float* query, int64_t num_query_tokens, const float* tokens, const int64_t* offsets,
                        int64_t num_documents, int64_t dim, float* scores);

}  // namespace maxsim::bench
