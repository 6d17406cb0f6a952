#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace maxsim {
namespace {

void TurnSigns(uint64_t seed, int32_t round, absl::Span<float> row) {
  const auto dim = static_cast<int32_t>(row.size());
  const int32_t begin = RotationBegin(dim, round);
  for (int32_t column = begin; column < begin + RotationSpan(dim); ++column) {
    const uint64_t signs = RotationSigns(seed, round, column / 64);
    if ((signs >> (column % 64) & 1) != 0) row[column] = -row[column];
  }
}

void Transform(int32_t round, float factor, absl::Span<float> row) {
  const auto dim = static_cast<int32_t>(row.size());
  const int32_t span = RotationSpan(dim);
  const int32_t begin = RotationBegin(dim, round);
  for (int32_t distance = 1; distance < span; distance *= 2) {
    for (int32_t pair = begin; pair < begin + span; pair += 2 * distance) {
      for (int32_t column = pair; column < pair + distance; ++column) {
        const float a = row[column];
        const float b = row[column + distance];
        row[column] = a + b;
        row[column + distance] = a - b;
      }
    }
  }
  for (int32_t column = begin; column < begin + span; ++column) row[column] *= factor;
}

}  // namespace

float RotationFactor(int32_t dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(RotationSpan(dim))));
}

void Rotate(uint64_t seed, absl::Span<float> row) {
  const float factor = RotationFactor(static_cast<int32_t>(row.size()));
  for (int32_t round = 0; round < kRotationRounds; ++round) {
    TurnSigns(seed, round, row);
    Transform(round, factor, row);
  }
}

void Unrotate(uint64_t seed, absl::Span<float> row) {
  // Signs and the scaled transform are symmetric and orthogonal: each is its own inverse.
  const float factor = RotationFactor(static_cast<int32_t>(row.size()));
  for (int32_t round = kRotationRounds - 1; round >= 0; --round) {
    Transform(round, factor, row);
    TurnSigns(seed, round, row);
  }
}

float Quantize(absl::Span<const float> values, int8_t* target) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  if (largest < kMinQuantizedMagnitude) {
    std::fill_n(target, values.size(), int8_t{0});
    return 0;
  }
  constexpr float kLargest = kMaxInt8;
  const float inverse = kLargest / largest;
  for (size_t idx = 0; idx < values.size(); ++idx) {
    target[idx] = static_cast<int8_t>(std::clamp(std::nearbyint(values[idx] * inverse), -kLargest, kLargest));
  }
  return largest / kLargest;
}

float QuantizeDocument(uint64_t seed, int32_t dim, absl::Span<float> rows, int8_t* target) {
  for (size_t begin = 0; begin < rows.size(); begin += dim) Rotate(seed, rows.subspan(begin, dim));
  return Quantize(rows, target);
}

void QuantizeQuery(uint64_t seed, int32_t dim, const float* rows, int8_t* target, absl::Span<float> scales) {
  std::vector<float> row(dim);
  for (size_t token = 0; token < scales.size(); ++token) {
    std::copy_n(rows + token * dim, dim, row.begin());
    Rotate(seed, absl::MakeSpan(row));
    scales[token] = Quantize(row, target + token * dim);
  }
}

}  // namespace maxsim
