// INT8 storage: the rotation that comes before quantising, and the quantisation of documents and of queries.
//
// Every row of a document is multiplied by a fixed orthogonal matrix. The document is then stored as one scale and one
// int8 element per value, where value = scale * element. A query's rows are multiplied by the same matrix, which leaves
// inner products unchanged, and each query token has its own scale. So a similarity is an integer sum times two scales:
//
//   score = scale_d * sum_i (w_i * scale_i) * max_j sum_k q_ik * d_jk
//
// The maximum compares the integer sums over k, which are exact in any order. The rotation spreads the few large
// columns of a trained embedding over all columns. With it, one scale per document loses no more precision than one
// scale per token would.
//
// The matrix consists of two rounds. Each round flips signs at random and applies a Hadamard transform (a randomised
// Hadamard transform: Ailon & Chazelle 2009) to RotationSpan(dim) columns: round 0 to the first ones, round 1 to the
// last ones. Multiplying a row takes d log d additions. All backends give the same bits, because they add and subtract
// in the same order and multiply by RotationFactor at the end of each round.
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

// Returns how many columns one Hadamard transform covers: the largest power of two that is at most `dim`.
constexpr int32_t RotationSpan(int32_t dim) {
  int32_t span = 1;
  while (span * 2 <= dim) span *= 2;
  return span;
}

// Returns the first column of a round's transform.
constexpr int32_t RotationBegin(int32_t dim, int32_t round) { return round == 0 ? 0 : dim - RotationSpan(dim); }

// Returns the signs of columns 64 * word .. 64 * word + 63 of a round's transform; a set bit flips the column's sign.
// The bits are those of SplitMix64 (Steele, Lea & Flood 2014).
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
// writes each token's scale to `scales`. Thread-safe.
void QuantizeQuery(uint64_t seed, int32_t dim, const float* rows, int8_t* target, absl::Span<float> scales);

}  // namespace maxsim
