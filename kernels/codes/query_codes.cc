#include "kernels/codes/query_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/codes/code_levels.h"
#include "kernels/codes/rounding.h"
#include "kernels/limits.h"
#include "kernels/quantize.h"

namespace maxsim {
namespace {

// The weight that a window (kernels/codes/query_codes.h) with coefficient 1 gives to the bit at which it ends.
constexpr double kWindowUnit = 128;

// A row is scaled so that |x(p) - x(p + 1) / 2| is at most this. A window's coefficient can be larger by 1, and must be
// at most 127.
constexpr double kMaxWindowTarget = 126;

// The relative error of an inner product of two rotated vectors. A rotation rounds 14 times in each of its two rounds:
// up to 12 additions, the factor, and the product with the factor. Each rounding changes a vector by at most 2^-24 of
// its norm.
constexpr double kRotationSlack = 2 * 28 * 0x1p-24 * 1.001;

// The relative error that kernels/maxsim.h allows for scores.
constexpr double kScoreSlack = 1e-5;

// The integers Q of one query token (kernels/codes/query_codes.h). Its rotated vector is about scale * Q.
struct TokenCode {
  std::vector<int8_t> elements;
  std::vector<int16_t> weights;  // one plane
  double scale = 0;              // of one unit of Q
};

// Four words of a row are solved at a time, two in each Pair (one vector register), because the steps within one word
// depend on each other. The operations of each word are those of scalar FP64 code in a fixed order, so that results
// have the same bits on every machine.
using Pair = double __attribute__((vector_size(16)));
constexpr int32_t kPairs = 2;
constexpr int32_t kWordsAtOnce = 2 * kPairs;
using Pairs = std::array<Pair, kPairs>;

Pair Larger(Pair a, Pair b) { return a > b ? a : b; }
Pair Smaller(Pair a, Pair b) { return a < b ? a : b; }
Pair Magnitude(Pair a) { return Larger(a, -a); }

// Rounds to the nearest integer, ties to even. Values must be below 2^51 in magnitude. Faster than std::nearbyint.
Pair RoundToEven(Pair values) {
  constexpr double kShift = 0x1.8p52;  // beyond it FP64 has no fractions
  return (values + kShift) - kShift;
}

// The columns of four words, by bit: -1 beyond the last word of a row.
using WordColumns = std::array<std::array<int32_t, kWordsAtOnce>, 32>;
// The values of these columns. They are 0 for columns beyond `dim`, and for a 33rd bit, which does not exist.
using WordValues = std::array<Pairs, 33>;

// Returns the columns of all words of a row, four words per element.
std::vector<WordColumns> ColumnsOfRow(int32_t dim) {
  std::vector<WordColumns> all;
  for (int32_t first = 0; first < CodeWords(dim); first += kWordsAtOnce) {
    WordColumns& columns = all.emplace_back();
    for (int32_t bit = 0; bit < 32; ++bit) {
      for (int32_t idx = 0; idx < kWordsAtOnce; ++idx) {
        columns[bit][idx] = first + idx < CodeWords(dim) ? ColumnOfBit(dim, first + idx, bit) : -1;
      }
    }
  }
  return all;
}

WordValues ReadWords(const WordColumns& columns, absl::Span<const double> row) {
  WordValues values = {};
  for (int32_t bit = 0; bit < 32; ++bit) {
    for (int32_t idx = 0; idx < kWordsAtOnce; ++idx) {
      const auto column = static_cast<size_t>(columns[bit][idx]);  // beyond the row if it is -1
      values[bit][idx / 2][idx % 2] = column < row.size() ? row[column] : 0;
    }
  }
  return values;
}

// Returns the largest |x(p)| and |x(p) - x(p + 1) / 2| of the words.
double LargestTarget(const WordValues& values) {
  Pair largest = {};
  for (int32_t bit = 0; bit < 32; ++bit) {
    for (int32_t pair = 0; pair < kPairs; ++pair) {
      const Pair value = values[bit][pair];
      largest = Larger(largest, Larger(Magnitude(value), Magnitude(value - values[bit + 1][pair] / 2)));
    }
  }
  return std::max(largest[0], largest[1]);
}

// Writes the windows' coefficients and the bits' weights of four words to `code`. A coefficient of 1 stands for `unit`.
void SolveWords(const WordColumns& columns, const WordValues& values, double unit, TokenCode* code) {
  std::array<Pairs, 32 + 7> coefficients = {};  // those beyond a word's last bit stay 0
  // The windows that end at the 7 bits above `bit` add `above` to the weight of `bit`. `above` is the sum of
  // coefficients[bit + t] * 2^(7 - t) for t = 1 .. 7. All of these numbers are integers far below 2^53, so the
  // operations are exact.
  Pairs above = {};
  for (int32_t bit = 31; bit >= 0; --bit) {
    for (int32_t pair = 0; pair < kPairs; ++pair) {
      const Pair rest = values[bit][pair] / unit - above[pair] / kWindowUnit;
      coefficients[bit][pair] = Larger(Smaller(RoundToEven(rest), Pair{127, 127}), Pair{-127, -127});
    }
    for (int32_t idx = 0; idx < kWordsAtOnce; ++idx) {
      const int32_t column = columns[bit][idx];
      if (column < 0) continue;
      const double coefficient = coefficients[bit][idx / 2][idx % 2];
      code->elements[column] = static_cast<int8_t>(coefficient);
      code->weights[column] = static_cast<int16_t>(above[idx / 2][idx % 2] + kWindowUnit * coefficient);
    }
    for (int32_t pair = 0; pair < kPairs; ++pair) {
      above[pair] = (above[pair] - coefficients[bit + 7][pair]) / 2 + coefficients[bit][pair] * (kWindowUnit / 2);
    }
  }
}

// Quantises a row for one plane: finds the windows' coefficients for which each bit's weight comes close to the value
// of its column. `columns` is ColumnsOfRow(row.size()).
void SolveWindows(absl::Span<const WordColumns> columns, absl::Span<const double> row, TokenCode* code) {
  double largest = 0;
  for (const WordColumns& words : columns) largest = std::max(largest, LargestTarget(ReadWords(words, row)));
  code->scale = 0;
  std::fill(code->elements.begin(), code->elements.end(), int8_t{0});
  std::fill(code->weights.begin(), code->weights.end(), int16_t{0});
  if (largest < kMinQuantizedMagnitude) return;
  const double unit = largest / kMaxWindowTarget;
  code->scale = unit / kWindowUnit;
  for (const WordColumns& words : columns) SolveWords(words, ReadWords(words, row), unit, code);
  std::fill(code->weights.begin() + static_cast<ptrdiff_t>(row.size()), code->weights.end(), int16_t{0});
}

absl::Status CheckQuery(const CodeShape& shape, int planes, absl::Span<const float> tokens,
                        absl::Span<const float> weights) {
  if (absl::Status s = ValidateCodeShape(shape); !s.ok()) return s;
  if (!IsPlaneCount(planes)) {
    return absl::InvalidArgumentError(absl::StrCat("planes is ", planes, "; must be 1, 2 or 4"));
  }
  const auto dim = static_cast<size_t>(shape.dim);
  const size_t num_tokens = tokens.size() / dim;
  if (tokens.size() % dim != 0 || num_tokens < 1 || num_tokens > kMaxQueryTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens has ", tokens.size(), " values; must be 1 to ", kMaxQueryTokens, " rows of ", dim));
  }
  if (const std::optional<size_t> bad = FindUnusableElement(ScalarType::kF32, tokens.data(), tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat("tokens: row ", *bad / dim, ", column ", *bad % dim, " is ",
                                                   tokens[*bad], "; must be finite and at most ", kMaxAbsValue,
                                                   " in magnitude"));
  }
  if (!weights.empty() && weights.size() != num_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights has ", weights.size(), " elements; must have none or ", num_tokens, ", one per token"));
  }
  for (size_t token = 0; token < weights.size(); ++token) {
    if (!(std::fabs(weights[token]) <= kMaxAbsWeight)) {
      return absl::InvalidArgumentError(absl::StrCat("weights[", token, "] is ", weights[token],
                                                     "; must be finite and at most ", kMaxAbsWeight, " in magnitude"));
    }
  }
  return absl::OkStatus();
}

// Makes the tokens of a query one after the other.
class QueryEncoder {
 public:
  QueryEncoder(const CodeShape& shape, int planes)
      : shape_(shape), planes_(planes), quantised_(shape.dim), exact_(shape.dim) {
    if (planes == 1) columns_ = ColumnsOfRow(shape.dim);
    code_.elements.resize(CodeColumns(shape.dim));
    code_.weights.resize(planes == 1 ? CodeColumns(shape.dim) : 0);
  }

  // Encodes a rotated row. The result is valid until the next call.
  const TokenCode& Encode(absl::Span<const float> row) {
    const float scale = Quantize(row, quantised_.data());
    // I8 originals are scored with the quantised query.
    const bool scored_quantised = shape_.originals == ScalarType::kI8;
    for (int32_t column = 0; column < shape_.dim; ++column) {
      exact_[column] = scored_quantised ? static_cast<double>(scale) * quantised_[column] : row[column];
    }
    if (planes_ == 1) {
      SolveWindows(columns_, exact_, &code_);
    } else {
      std::copy(quantised_.begin(), quantised_.end(), code_.elements.begin());
      code_.scale = scale;
    }
    return code_;
  }

  // Returns the rotated row of the last call of Encode with the values that exact scoring uses (quantised for I8
  // originals).
  absl::Span<const double> exact() const { return exact_; }

 private:
  CodeShape shape_;
  int planes_;
  std::vector<WordColumns> columns_;  // for one plane
  TokenCode code_;
  std::vector<int8_t> quantised_;
  std::vector<double> exact_;
};

// Returns Q of a token of `query`.
int32_t IntegerOf(const QueryCodes& query, size_t place) {
  return query.planes == 1 ? query.weights[place] : query.elements[place];
}

}  // namespace

absl::StatusOr<QueryCodes> EncodeQuery(const CodeShape& shape, int planes, absl::Span<const float> tokens,
                                       absl::Span<const float> weights) {
  if (absl::Status s = CheckQuery(shape, planes, tokens, weights); !s.ok()) return s;
  const auto dim = static_cast<size_t>(shape.dim);
  const auto num_columns = static_cast<size_t>(CodeColumns(shape.dim));
  const size_t num_tokens = tokens.size() / dim;
  QueryCodes query;
  query.shape = shape;
  query.planes = planes;
  query.num_tokens = static_cast<int32_t>(num_tokens);
  std::vector<double> exact;        // [num_tokens, dim]
  std::vector<double> unit_scales;  // [num_tokens] weight times the value of one unit of a token's Q
  double largest = 0;
  std::vector<float> rotated(tokens.begin(), tokens.end());
  RotateRows(shape.rotation_seed, shape.dim, absl::MakeSpan(rotated));
  QueryEncoder encoder(shape, planes);
  for (size_t token = 0; token < num_tokens; ++token) {
    const TokenCode& code = encoder.Encode(absl::MakeConstSpan(rotated).subspan(token * dim, dim));
    query.elements.insert(query.elements.end(), code.elements.begin(), code.elements.end());
    query.weights.insert(query.weights.end(), code.weights.begin(), code.weights.end());
    query.element_sums.push_back(std::accumulate(code.elements.begin(), code.elements.end(), int32_t{0}));
    query.weight_sums.push_back(planes == 1 ? std::accumulate(code.weights.begin(), code.weights.end(), int32_t{0})
                                            : query.element_sums.back());
    exact.insert(exact.end(), encoder.exact().begin(), encoder.exact().end());
    unit_scales.push_back(code.scale * (weights.empty() ? 1.0 : weights[token]));
    largest = std::max(largest, std::fabs(unit_scales.back()));
  }
  const double step = largest / kMaxMultiplier;
  query.unit = step * LevelUnit(planes);
  for (size_t token = 0; token < num_tokens; ++token) {
    const double multiplier = step == 0 ? 0 : std::nearbyint(unit_scales[token] / step);
    query.multipliers.push_back(static_cast<int16_t>(multiplier));
    const double weight = weights.empty() ? 1.0 : weights[token];
    double row_squares = 0, coded_squares = 0, error_squares = 0;
    for (size_t column = 0; column < dim; ++column) {
      const double value = exact[token * dim + column];
      const double coded = step * multiplier * IntegerOf(query, token * num_columns + column);
      const double error = weight * value - coded;
      row_squares += value * value;
      coded_squares += coded * coded;
      error_squares += error * error;
    }
    const double length = std::fabs(weight) * std::sqrt(row_squares);
    query.reach += std::sqrt(coded_squares);
    query.slack += std::sqrt(error_squares);
    // Adds what rounding may add to a score. 2^-45 covers the rounding of `error`, whose relative error is about 2^-52.
    query.slack += length * (kScoreSlack + 0x1p-45);
    if (shape.originals != ScalarType::kI8) query.slack += length * kRotationSlack;
  }
  query.reach *= kInflation;
  // The norms above are of rotated vectors. The factor 1 + kRotationSlack covers that the vectors before the rotation
  // may be slightly longer.
  query.slack *= kInflation * (1 + kRotationSlack);
  return query;
}

float Estimate(const QueryCodes& query, int64_t sum, float scale) {
  // Adding +0.0F turns -0 into 0. A GPU's selection also returns 0 for -0.
  return static_cast<float>(static_cast<double>(sum) * (query.unit * static_cast<double>(scale))) + 0.0F;
}

float UpperBound(const QueryCodes& query, int64_t positive, float scale, const CodeBound& bound) {
  const double nominal = NominalNorm(query.shape, scale);
  const double slope = F16ToF32(bound.slope);
  const double residual = F16ToF32(bound.residual) * nominal;
  const double length = F16ToF32(bound.length) * nominal;
  const double norm = F16ToF32(bound.norm) * nominal;
  // The bound for the coded query is the maximum over 0 <= s <= `along` of slope * s + residual * sqrt(reach^2 - (s /
  // length)^2). This function rises up to s = reach * length * projection / hypotenuse, and falls after that.
  const double along = static_cast<double>(positive) * (query.unit * static_cast<double>(scale)) * kInflation;
  const double projection = slope * length;
  const double hypotenuse = std::sqrt(projection * projection + residual * residual);
  double score = 0;
  if (along * hypotenuse >= query.reach * length * projection) {
    score = query.reach * hypotenuse;
  } else {
    const double cosine = along / length;
    score = slope * along + residual * std::sqrt(std::max(0.0, query.reach * query.reach - cosine * cosine));
  }
  const double total = (score + query.slack * norm + (query.reach + query.slack) * kUnseenNorm) * kInflation;
  return std::isnan(total) ? std::numeric_limits<float>::infinity() : RoundUpToF32(total);
}

}  // namespace maxsim
