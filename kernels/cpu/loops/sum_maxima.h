// The last step of a score: the sum over a query's tokens, in the order that the contract fixes.
#pragma once

#include <cstddef>

namespace maxsim::cpu {

// Returns the score of a query from its tokens' maxima (maxima[i] = max_j <q_i, d_j>). Every 32 weighted maxima are
// added by a fixed butterfly, in which absent tokens count as zero, and their sum is multiplied by `scale`; these sums
// are added in order. `weights` may be null, which makes every weight 1.
float SumMaxima(const float* maxima, const float* weights, size_t num_tokens, float scale = 1);

}  // namespace maxsim::cpu
