// Queries for scans over codes. A query is encoded as integers, which are multiplied with the levels of documents'
// codes. Estimate and UpperBound turn the integer sums into an estimate and an upper bound of the score.
// docs/internals/codes.md proves the bound.
//
// A token's integers Q_i and its multiplier u_i stand for the vector w_i q_i ~ step * u_i * Q_i, rotated, where w_i is
// its weight. With I_ij = <Q_i, L_j> * g_j, all integers,
//
//   sum      = sum_i u_i * max_j I_ij               estimate    = unit * scale * sum
//   positive = sum_i max(0, u_i * max_j I_ij)       upper bound = a function of `positive` (UpperBound)
//
// The integer sums are exact in any order, so every backend has the same sums. They fit 62 bits with a sign, and <Q_i,
// L_j> fits 28 bits with a sign.
//
// Two and four planes: Q_i is the INT8 query of kernels/quantize.h.
//
// One plane: a GPU multiplies windows of bits, because it gets a window by one shift of a word, without a mask. The
// window that ends at bit p of word w of plane 0 is the byte sum_t bit(p - t) * 2^(7 - t), t = 0 .. 7, with zeros below
// bit 0. A token has an INT8 coefficient c for each window. Then bit p has the weight Q = sum_t c(p + t) * 2^(7 - t),
// over windows of the same word, and
//
//   sum over windows of c * window = sum over bits of Q * bit,   <Q, L> = 2 * (that sum) - sum over coordinates of Q,
//
// exactly. Coefficients are chosen from p = 31 down: c(p) is the integer next to x(p) - sum_{t >= 1} c(p + t) 2^-t,
// where x is the rotated row divided by its scale, so that Q / 128 is within half a unit of x, as a rounded INT8 value
// is. The scale is the smallest for which no coefficient leaves -127 .. 127.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codes/codes.h"

namespace maxsim {

// The largest magnitude of a multiplier u_i.
inline constexpr int32_t kMaxMultiplier = 32767;

// If a document's scale is 0, the norms of its tokens are below this: kMinNominalNorm times 256, the square root of
// kMaxDocumentTokens.
inline constexpr double kUnseenNorm = 1e-25;

struct QueryCodes {
  CodeShape shape;
  int planes = 1;  // planes that the scan reads: 1, 2 or 4
  int32_t num_tokens = 0;

  // [num_tokens, CodeColumns(dim)]. Two and four planes: Q, with zeros beyond `dim`. One plane: the coefficient of the
  // window that ends at the bit of a coordinate, at the place of that coordinate (ColumnOfBit); coefficients beyond
  // `dim` are in use.
  std::vector<int8_t> elements;
  // One plane: Q, [num_tokens, CodeColumns(dim)], with zeros beyond `dim`. Otherwise empty.
  std::vector<int16_t> weights;
  std::vector<int32_t> weight_sums;   // [num_tokens]: sum over the coordinates of Q
  std::vector<int32_t> element_sums;  // [num_tokens]: sum over `elements`
  std::vector<int16_t> multipliers;   // u, [num_tokens]

  double unit = 0;   // estimate = unit * the document's scale * sum
  double reach = 0;  // at least sum_i |step * u_i * Q_i|
  // The exact score of a document is at most the score of the coded query plus `slack` * the largest norm of the
  // document's tokens. `slack` covers the rounding of the query, of the rotation, and of the scores of every backend
  // (kernels/maxsim.h).
  double slack = 0;
};

// Makes the codes of a query for scans of `planes` planes over documents of `shape`. `tokens` is [num_tokens, dim] in
// F32: the same values that the originals are scored with, so they are rounded to F16 or BF16 first if the originals
// have that type. `weights` is empty or has num_tokens elements. INVALID_ARGUMENT names the field, the value and the
// limit. Thread-safe.
absl::StatusOr<QueryCodes> EncodeQuery(const CodeShape& shape, int planes, absl::Span<const float> tokens,
                                       absl::Span<const float> weights);

// Returns the estimate of a document's score. Its bits are the same on every machine: two FP64 products, rounded to
// FP32.
float Estimate(const QueryCodes& query, int64_t sum, float scale);

// Returns an upper bound of a document's score, rounded up. It bounds both the exact score and the score that a backend
// computes from the originals. It is infinity if no finite FP32 number is a bound. Its bits are the same on every
// machine (FP64 operations of IEEE 754 in a fixed order).
float UpperBound(const QueryCodes& query, int64_t positive, float scale, const CodeBound& bound);

}  // namespace maxsim
