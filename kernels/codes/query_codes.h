// Encodes queries for scans over codes as integers, which a scan multiplies with the levels of documents' codes.
// Estimate and UpperBound turn the integer sums of a scan into an estimate and an upper bound of the score.
// docs/internals/codes.md proves the bound.
//
// For query token i with the rotated vector q_i and the weight w_i, the integers Q_i and the multiplier u_i satisfy w_i
// q_i ~ step * u_i * Q_i. Let I_ij = <Q_i, L_j> * g_j, with L_j and g_j of document token j (kernels/codes/codes.h).
// Then
//
//   sum      = sum_i u_i * max_j I_ij               estimate    = unit * scale * sum
//   positive = sum_i max(0, u_i * max_j I_ij)       upper bound = a function of `positive` (UpperBound)
//
// The integer sums are exact in any order, so all backends compute the same. They fit signed 62-bit integers, and <Q_i,
// L_j> fits signed 28-bit integers.
//
// Two and four planes: Q_i is the INT8 query of kernels/quantize.h.
//
// One plane: a GPU multiplies windows, bytes of 8 neighbouring bits, because it gets a window by one shift of a word,
// without a mask. The window that ends at bit p of word w of plane 0 is the byte sum_t bit(p - t) * 2^(7 - t), t = 0 ..
// 7, with zeros below bit 0. A query token has an INT8 coefficient c for each window. So bit p has the weight Q = sum_t
// c(p + t) * 2^(7 - t), over windows of the same word, and
//
//   sum over windows of c * window = sum over bits of Q * bit,   <Q, L> = 2 * (that sum) - sum over coordinates of Q,
//
// exactly. Coefficients are chosen from p = 31 down: c(p) is x(p) - sum_{t >= 1} c(p + t) 2^-t, rounded to an integer,
// where x is the rotated row divided by its scale. So Q / 128 is within 1/2 of x, like a rounded INT8 value. The scale
// is chosen so that no coefficient leaves -127 .. 127.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codes/codes.h"

namespace maxsim {

// The largest magnitude of a multiplier u_i.
inline constexpr int32_t kMaxMultiplier = 32767;

// The tokens of a document with scale 0 have norms below this: kMinNominalNorm * 256 (the square root of
// kMaxDocumentTokens).
inline constexpr double kUnseenNorm = 1e-25;

struct QueryCodes {
  CodeShape shape;
  int planes = 1;  // planes that the scan reads: 1, 2 or 4
  int32_t num_tokens = 0;

  // [num_tokens, CodeColumns(dim)]. Two and four planes: Q, with zeros beyond `dim`. One plane: for each coordinate
  // (ColumnOfBit), the coefficient of the window that ends at its bit. Coefficients beyond `dim` may differ from 0.
  std::vector<int8_t> elements;
  // One plane: Q, [num_tokens, CodeColumns(dim)], with zeros beyond `dim`. Otherwise empty.
  std::vector<int16_t> weights;
  std::vector<int32_t> weight_sums;   // [num_tokens]: sum over the coordinates of Q
  std::vector<int32_t> element_sums;  // [num_tokens]: sum over `elements`
  std::vector<int16_t> multipliers;   // u, [num_tokens]

  double unit = 0;   // estimate = unit * the document's scale * sum
  double reach = 0;  // at least sum_i |step * u_i * Q_i|
  // The exact score of a document is at most its score with the coded query plus `slack` * the largest norm of its
  // tokens. `slack` covers the rounding of the query, of the rotation, and of every backend's scores
  // (kernels/maxsim.h).
  double slack = 0;
};

// Encodes a query for scans of `planes` planes over documents of `shape`. `tokens` is [num_tokens, dim] and must have
// the values with which the documents' vectors are scored: the caller rounds them to F16 or BF16 first if the vectors
// have that type. `weights` is empty (every weight is 1) or has num_tokens elements. INVALID_ARGUMENT names the field,
// the value and the limit. Thread-safe.
absl::StatusOr<QueryCodes> EncodeQuery(const CodeShape& shape, int planes, absl::Span<const float> tokens,
                                       absl::Span<const float> weights);

// Returns the estimate of a document's score from `sum` (see above) and the scale of its code. It has the same bits on
// every machine.
float Estimate(const QueryCodes& query, int64_t sum, float scale);

// Returns an upper bound of a document's score from `positive` (see above), and the scale and the bound of its code. It
// bounds both the exact score and the score that any backend computes from the vectors. It is infinity if no finite
// FP32 number is a bound. It has the same bits on every machine.
float UpperBound(const QueryCodes& query, int64_t positive, float scale, const CodeBound& bound);

}  // namespace maxsim
