// INT8 storage: the rotation that comes before quantising, and the quantisation of documents and of queries.
//
// Every row of a document is multiplied by a fixed orthogonal matrix; then the document is stored as one scale and one
// int8 a value, where value = scale * element. A query's rows are multiplied by the same matrix, which leaves inner
// products as they are, and each of its tokens has a scale, so that a similarity is an integer sum times two scales:
//
//   score = scale_d * sum_i (w_i * scale_i) * max_j sum_k q_ik * d_jk
//
// The maximum is taken of integers, and those sums are exact in any order. Rotating spreads the few large columns of a
// trained embedding over all of them, so that one scale a document loses no more precision than one a token would.
//
// The matrix is two rounds of random signs and a Hadamard transform (as in randomised Hadamard transforms of the
// literature: Ailon & Chazelle 2009), each over the largest power of two of columns: round 0 over the first ones, round
// 1 over the last ones. It takes d log d additions. It has the same bits on every backend, since sums and differences
// are taken in one order and a multiplication by RotationFactor follows them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace maxsim {

// Elements lie in -kMaxInt8 .. kMaxInt8; -128 is not used.
inline constexpr int32_t kMaxInt8 = 127;

// Rows whose largest magnitude is below this are quantised to zeros, with scale 0.
inline constexpr float kMinQuantizedMagnitude = 1e-30f;

inline constexpr int32_t kRotationRounds = 2;

// Returns the columns of one Hadamard transform: the largest power of two that is at most `dim`.
constexpr int32_t RotationSpan(int32_t dim) {
  int32_t span = 1;
  while (span * 2 <= dim) span *= 2;
  return span;
}

// Returns the first column of a round's transform.
constexpr int32_t RotationBegin(int32_t dim, int32_t round) { return round == 0 ? 0 : dim - RotationSpan(dim); }

// Returns the signs of columns 64 * word .. 64 * word + 63 of a round's transform; a set bit turns a column's sign.
// They are those of SplitMix64 (Steele, Lea & Flood 2014).
constexpr uint64_t RotationSigns(uint64_t seed, int32_t round, int32_t word) {
  uint64_t bits = seed + (static_cast<uint64_t>(round) * 64 + static_cast<uint64_t>(word) + 1) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Returns the factor that a round multiplies its columns by: span^-1/2, rounded to FP32.
float RotationFactor(int32_t dim);

// Rotates one row in place. `row` has kMinDim to kMaxDim columns. Thread-safe.
void Rotate(uint64_t seed, absl::Span<float> row);

// Rotates every row of `rows`, [rows.size() / dim, dim], in place: faster than calling Rotate for each. Thread-safe.
void RotateRows(uint64_t seed, int32_t dim, absl::Span<float> rows);

// Undoes Rotate, except for the rounding to FP32. Thread-safe.
void Unrotate(uint64_t seed, absl::Span<float> row);

// Quantises values that share a scale, rounding to nearest even, into `target` [values.size()]. Returns the scale:
// largest magnitude / kMaxInt8, or 0 below kMinQuantizedMagnitude. Thread-safe.
float Quantize(absl::Span<const float> values, int8_t* target);

// Rotates one document's rows, [num_tokens, dim] in F32, in place and quantises them with one scale into `target`
// [num_tokens, dim]. Returns the scale. Thread-safe.
float QuantizeDocument(uint64_t seed, int32_t dim, absl::Span<float> rows, int8_t* target);

// Rotates and quantises a copy of a query's rows, [scales.size(), dim] in F32, into `target` [scales.size(), dim], and
// writes a scale for each token. Thread-safe.
void QuantizeQuery(uint64_t seed, int32_t dim, const float* rows, int8_t* target, absl::Span<float> scales);

}  // namespace maxsim
