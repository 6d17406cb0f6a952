// The last step of a score: the sum over a query's tokens, in the order that kernels/maxsim.h fixes.
#pragma once

#include <cstddef>

namespace maxsim::cpu {

// Returns a document's score from the maxima of the query's tokens: maxima[i] = max_j <q_i, d_j>. Adds every 32
// weighted maxima in a fixed tree, in which missing tokens count as zero, and multiplies the sum by `scale`; then adds
// these sums in order. If `weights` is null, every weight is 1.
float SumMaxima(const float* maxima, const float* weights, size_t num_tokens, float scale = 1);

}  // namespace maxsim::cpu
