// The sum of a query tile's weighted maxima.
#pragma once

#include "kernels/plan/rows.h"

namespace maxsim::cuda {

// Returns the sum of 32 weighted maxima, one per lane, by the butterfly, the tree of additions that is the same in all
// kernels (docs/internals/correctness.md). Every lane gets the same bits.
__device__ __forceinline__ float AddQueryTile(float weight, float maximum) {
  float sum = __fmul_rn(weight, maximum);
#pragma unroll
  for (int distance = kQueryTileTokens / 2; distance > 0; distance /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
  }
  return sum;
}

}  // namespace maxsim::cuda
