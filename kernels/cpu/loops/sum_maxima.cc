#include "kernels/cpu/loops/sum_maxima.h"

#include <algorithm>

namespace maxsim::cpu {

float SumMaxima(const float* maxima, const float* weights, size_t num_tokens, float scale) {
  constexpr size_t kBlock = 32;
  float score = 0;
  for (size_t first = 0; first < num_tokens; first += kBlock) {
    const size_t count = std::min(kBlock, num_tokens - first);
    float terms[kBlock] = {};
    for (size_t idx = 0; idx < count; ++idx) {
      // Adding 0 turns -0 into +0. Otherwise the result would depend on the instruction set, because max(-0, +0) may
      // return either.
      terms[idx] = maxima[first + idx] + 0.0f;
      if (weights != nullptr) terms[idx] *= weights[first + idx];
    }
    for (size_t distance = kBlock / 2; distance > 0; distance /= 2) {
      for (size_t idx = 0; idx < distance; ++idx) terms[idx] += terms[idx + distance];
    }
    score += terms[0] * scale;  // `score` begins as +0, so that it never becomes -0
  }
  return score;
}

}  // namespace maxsim::cpu
