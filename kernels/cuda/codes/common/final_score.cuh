// Computes the estimate or the upper bound of a score from a scan's integer sums. The bits are those of Estimate and
// UpperBound in kernels/codes/query_codes.h.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/codes/query_codes.h"
#include "kernels/codes/rounding.h"
#include "kernels/cuda/codes/common/expand.cuh"
#include "kernels/cuda/codes/common/scan_params.h"

namespace maxsim::cuda {

// Returns the term of a query row in a document's sum. `product` is the row's largest product with the document's
// tokens. For an upper bound, a negative term counts as 0.
__device__ __forceinline__ int64_t RowTerm(int32_t multiplier, int64_t product, bool by_upper_bound) {
  const int64_t term = multiplier * product;
  return by_upper_bound && term < 0 ? 0 : term;
}

__device__ __forceinline__ double WidenF16(uint16_t bits) {
  return static_cast<double>(__half2float(__ushort_as_half(bits)));
}

// Computes UpperBound with intrinsics. The compiler would contract plain operators to fused operations, which round
// differently.
__device__ __forceinline__ float UpperBoundOfSum(const ScanQueryParams& query, const CodeArrays& codes,
                                                 int64_t positive, float scale, const CodeBound& bound) {
  const double nominal = __dmul_rn(__dmul_rn(static_cast<double>(scale), codes.root_of_dim), codes.largest_factor);
  const double slope = WidenF16(bound.slope);
  const double residual = __dmul_rn(WidenF16(bound.residual), nominal);
  const double length = __dmul_rn(WidenF16(bound.length), nominal);
  const double norm = __dmul_rn(WidenF16(bound.norm), nominal);
  const double unit = __dmul_rn(query.unit, static_cast<double>(scale));
  const double along = __dmul_rn(__dmul_rn(static_cast<double>(positive), unit), kInflation);
  const double projection = __dmul_rn(slope, length);
  const double hypotenuse = __dsqrt_rn(__dadd_rn(__dmul_rn(projection, projection), __dmul_rn(residual, residual)));
  double score = 0;
  if (__dmul_rn(along, hypotenuse) >= __dmul_rn(__dmul_rn(query.reach, length), projection)) {
    score = __dmul_rn(query.reach, hypotenuse);
  } else {
    const double cosine = __ddiv_rn(along, length);
    const double left = __dadd_rn(__dmul_rn(query.reach, query.reach), -__dmul_rn(cosine, cosine));
    // Like std::max(0.0, left), which is 0 if `left` is NaN.
    const double sine = __dsqrt_rn(left > 0 ? left : 0.0);
    score = __dadd_rn(__dmul_rn(slope, along), __dmul_rn(residual, sine));
  }
  const double unseen = __dmul_rn(__dadd_rn(query.reach, query.slack), kUnseenNorm);
  const double total = __dmul_rn(__dadd_rn(__dadd_rn(score, __dmul_rn(query.slack, norm)), unseen), kInflation);
  return isnan(total) ? std::numeric_limits<float>::infinity() : __double2float_ru(total);
}

// Returns the estimate or the upper bound of a document's score. `scale` is the document's.
__device__ __forceinline__ float FinalScore(const ScanQueryParams& query, const CodeArrays& codes, int64_t sum,
                                            uint32_t ordinal, float scale) {
  if (query.by_upper_bound) return UpperBoundOfSum(query, codes, sum, scale, codes.bounds[ordinal]);
  return static_cast<float>(__dmul_rn(static_cast<double>(sum), __dmul_rn(query.unit, static_cast<double>(scale))));
}

// Returns the score of a document from the largest products of kScanPairRows rows, which all belong to the query.
template <int kPlanes>
__device__ __forceinline__ float ScoreOfMaxima(const ScanQueryParams& query, const CodeArrays& codes,
                                               const ScanRow* rows, const int32_t* maxima, uint32_t ordinal) {
  int64_t sum = 0;
#pragma unroll 8
  for (int row = 0; row < kScanPairRows; ++row) {
    const int32_t product = kProductScale<kPlanes> * maxima[row] + rows[row].offset;
    sum += RowTerm(rows[row].multiplier, product, query.by_upper_bound != 0);
  }
  return FinalScore(query, codes, sum, ordinal, codes.scales[ordinal]);
}

__device__ __forceinline__ bool MayBeSelected(const uint64_t* mask, uint32_t ordinal) {
  return mask == nullptr || (mask[ordinal / 64] >> (ordinal % 64) & 1) != 0;
}

}  // namespace maxsim::cuda
