#include "kernels/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace maxsim {
namespace {

// Four columns, which take one vector register if the machine has such registers. Every lane does the same operations
// as scalar FP32 code would, in the same order, so that results have the same bits on every machine.
using Columns = float __attribute__((vector_size(16)));
constexpr int32_t kColumns = 4;

Columns Load(const float* columns) {
  Columns loaded;
  std::memcpy(&loaded, columns, sizeof(loaded));
  return loaded;
}

void Store(Columns values, float* columns) { std::memcpy(columns, &values, sizeof(values)); }

// Computes the Hadamard transform of [span] columns in place: for distances 1, 2, 4, ... x[i], x[i + distance] = x[i] +
// x[i + distance], x[i] - x[i + distance]; then multiplies by the factor. The code handles two distances at a time, so
// that columns are loaded and stored half as often.
class Hadamard {
 public:
  Hadamard(int32_t span, float factor) : span_(span), factor_(factor) {}

  // Multiplies columns by `signs`, unless that is null, and transforms them.
  void operator()(float* columns, const float* signs) const {
    for (int32_t column = 0; column < span_; column += kColumns) {
      const Columns values = Load(columns + column);
      Store(DistancesOneAndTwo(signs == nullptr ? values : values * Load(signs + column)), columns + column);
    }
    int32_t distance = kColumns;
    for (; distance * 2 < span_; distance *= 4) {
      for (int32_t begin = 0; begin < span_; begin += 4 * distance) TwoDistances(columns + begin, distance);
    }
    if (distance < span_) OneDistance(columns, distance);
    for (int32_t column = 0; column < span_; column += kColumns) {
      Store(Load(columns + column) * factor_, columns + column);
    }
  }

 private:
  static Columns DistancesOneAndTwo(Columns x) {
    constexpr Columns kOne = {1, -1, 1, -1};
    constexpr Columns kTwo = {1, 1, -1, -1};
    x = __builtin_shufflevector(x, x, 0, 0, 2, 2) + __builtin_shufflevector(x, x, 1, 1, 3, 3) * kOne;
    return __builtin_shufflevector(x, x, 0, 1, 0, 1) + __builtin_shufflevector(x, x, 2, 3, 2, 3) * kTwo;
  }

  static void TwoDistances(float* columns, int32_t distance) {
    for (int32_t column = 0; column < distance; column += kColumns) {
      float* const x = columns + column;
      const Columns a = Load(x), b = Load(x + distance), c = Load(x + 2 * distance), d = Load(x + 3 * distance);
      const Columns a_plus_b = a + b, a_minus_b = a - b, c_plus_d = c + d, c_minus_d = c - d;
      Store(a_plus_b + c_plus_d, x);
      Store(a_minus_b + c_minus_d, x + distance);
      Store(a_plus_b - c_plus_d, x + 2 * distance);
      Store(a_minus_b - c_minus_d, x + 3 * distance);
    }
  }

  static void OneDistance(float* columns, int32_t distance) {
    for (int32_t column = 0; column < distance; column += kColumns) {
      float* const x = columns + column;
      const Columns a = Load(x), b = Load(x + distance);
      Store(a + b, x);
      Store(a - b, x + distance);
    }
  }

  int32_t span_;
  float factor_;
};

// The rotation's matrix, prepared once for many rows of `dim` columns.
class Rotation {
 public:
  Rotation(uint64_t seed, int32_t dim)
      : dim_(dim),
        span_(RotationSpan(dim)),
        transform_(span_, RotationFactor(dim)),
        signs_(static_cast<size_t>(kRotationRounds * span_)) {
    for (int32_t round = 0; round < kRotationRounds; ++round) {
      const int32_t begin = RotationBegin(dim, round);
      uint64_t word = 0;
      for (int32_t column = begin; column < begin + span_; ++column) {
        if (column == begin || column % 64 == 0) word = RotationSigns(seed, round, column / 64);
        Signs(round)[column - begin] = (word >> (column % 64) & 1) != 0 ? -1.0f : 1.0f;
      }
    }
  }

  void Turn(float* row) const {
    for (int32_t round = 0; round < kRotationRounds; ++round)
      transform_(row + RotationBegin(dim_, round), Signs(round));
  }

  // Multiplies a row by the inverse matrix. The signs and the scaled transform are symmetric and orthogonal, so that
  // each is its own inverse.
  void TurnBack(float* row) const {
    for (int32_t round = kRotationRounds - 1; round >= 0; --round) {
      float* const columns = row + RotationBegin(dim_, round);
      transform_(columns, nullptr);
      for (int32_t column = 0; column < span_; ++column) columns[column] *= Signs(round)[column];
    }
  }

 private:
  float* Signs(int32_t round) { return signs_.data() + round * span_; }
  const float* Signs(int32_t round) const { return signs_.data() + round * span_; }

  int32_t dim_;
  int32_t span_;
  Hadamard transform_;
  std::vector<float> signs_;  // [kRotationRounds, span_] of 1 and -1
};

}  // namespace

float RotationFactor(int32_t dim) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(RotationSpan(dim))));
}

void Rotate(uint64_t seed, absl::Span<float> row) { Rotation(seed, static_cast<int32_t>(row.size())).Turn(row.data()); }

void RotateRows(uint64_t seed, int32_t dim, absl::Span<float> rows) {
  const Rotation rotation(seed, dim);
  for (size_t begin = 0; begin < rows.size(); begin += dim) rotation.Turn(rows.data() + begin);
}

void Unrotate(uint64_t seed, absl::Span<float> row) {
  Rotation(seed, static_cast<int32_t>(row.size())).TurnBack(row.data());
}

float Quantize(absl::Span<const float> values, int8_t* target) {
  // Magnitudes are ordered as their bits are.
  constexpr uint32_t kNoSign = 0x7fffffff;
  int32_t largest_bits = 0;
  for (const float value : values) {
    const auto bits = static_cast<int32_t>(std::bit_cast<uint32_t>(value) & kNoSign);
    largest_bits = bits > largest_bits ? bits : largest_bits;
  }
  const auto largest = std::bit_cast<float>(largest_bits);
  if (largest < kMinQuantizedMagnitude) {
    std::fill_n(target, values.size(), int8_t{0});
    return 0;
  }
  constexpr float kLargest = kMaxInt8;
  const float inverse = kLargest / largest;
  // FP32 numbers from 2^23 on are whole, so adding 1.5 * 2^23 rounds to the nearest integer, ties to even.
  constexpr float kRounds = 12582912.0f;
  for (size_t idx = 0; idx < values.size(); ++idx) {
    const auto element = static_cast<int32_t>((values[idx] * inverse + kRounds) - kRounds);
    target[idx] = static_cast<int8_t>(std::clamp(element, -kMaxInt8, kMaxInt8));
  }
  return largest / kLargest;
}

float QuantizeDocument(uint64_t seed, int32_t dim, absl::Span<float> rows, int8_t* target) {
  RotateRows(seed, dim, rows);
  return Quantize(rows, target);
}

void QuantizeQuery(uint64_t seed, int32_t dim, const float* rows, int8_t* target, absl::Span<float> scales) {
  const Rotation rotation(seed, dim);
  std::vector<float> row(dim);
  for (size_t token = 0; token < scales.size(); ++token) {
    std::copy_n(rows + token * dim, dim, row.begin());
    rotation.Turn(row.data());
    scales[token] = Quantize(row, target + token * dim);
  }
}

}  // namespace maxsim
