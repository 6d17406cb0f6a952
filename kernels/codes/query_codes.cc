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

// A window that ends at a bit and has the coefficient 1 gives this weight to that bit.
constexpr double kWindowUnit = 128;

// A row is scaled so that |x(p) - x(p + 1) / 2| is at most this. A window's coefficient can be larger than that by 1,
// and must not exceed 127.
constexpr double kMaxWindowTarget = 126;

// A rotation rounds 14 times in each of its two rounds: up to 12 additions, the factor, and the product with it. Each
// rounding changes a vector by at most 2^-24 of its norm. An inner product has two rotated vectors.
constexpr double kRotationSlack = 2 * 28 * 0x1p-24 * 1.001;

// The contract of kernels/maxsim.h.
constexpr double kScoreSlack = 1e-5;

double NormOf(absl::Span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// The integers Q of a token, before they are written to QueryCodes. The token's vector is about scale * Q.
struct TokenCode {
  std::vector<int8_t> elements;
  std::vector<int16_t> weights;  // one plane
  double scale = 0;              // of one unit of Q
};

// Rounds a value below 2^51 in magnitude to the nearest integer, ties to even: std::nearbyint without the library
// call.
double RoundToEven(double value) {
  constexpr double kShift = 0x1.8p52;  // beyond it FP64 has no fractions
  return (value + kShift) - kShift;
}

// Returns the values of `row` at the columns of one word's bits, by bit: 0 for columns beyond `dim`. The last element
// is 0: it stands for the bit after the last one.
std::array<double, 33> ValuesOfWord(int32_t dim, int32_t word, absl::Span<const double> row) {
  std::array<double, 33> values = {};
  for (int32_t bit = 0; bit < 32; ++bit) {
    const int32_t column = ColumnOfBit(dim, word, bit);
    if (column < dim) values[bit] = row[column];
  }
  return values;
}

// Quantises a row for one plane: finds the windows' coefficients with which each bit's weight comes closest to its
// value in `row`.
void SolveWindows(int32_t dim, absl::Span<const double> row, TokenCode* code) {
  std::fill(code->elements.begin(), code->elements.end(), int8_t{0});
  std::fill(code->weights.begin(), code->weights.end(), int16_t{0});
  double largest = 0;
  for (int32_t word = 0; word < CodeWords(dim); ++word) {
    const std::array<double, 33> values = ValuesOfWord(dim, word, row);
    for (int32_t bit = 0; bit < 32; ++bit) {
      largest = std::max({largest, std::fabs(values[bit]), std::fabs(values[bit] - values[bit + 1] / 2)});
    }
  }
  code->scale = 0;
  if (largest < kMinQuantizedMagnitude) return;
  const double unit = largest / kMaxWindowTarget;
  code->scale = unit / kWindowUnit;
  for (int32_t word = 0; word < CodeWords(dim); ++word) {
    const std::array<double, 33> values = ValuesOfWord(dim, word, row);
    int32_t coefficients[32 + 7] = {};  // those beyond the word's last bit stay 0
    for (int32_t bit = 31; bit >= 0; --bit) {
      int32_t above = 0;  // what this bit gets from the windows that end at higher bits
      for (int32_t t = 1; t < 8; ++t) above += coefficients[bit + t] << (7 - t);
      const double rest = values[bit] / unit - above / kWindowUnit;
      coefficients[bit] = static_cast<int32_t>(std::clamp(RoundToEven(rest), -127.0, 127.0));
      const int32_t column = ColumnOfBit(dim, word, bit);
      code->elements[column] = static_cast<int8_t>(coefficients[bit]);
      if (column < dim) code->weights[column] = static_cast<int16_t>(above + 128 * coefficients[bit]);
    }
  }
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
      SolveWindows(shape_.dim, exact_, &code_);
    } else {
      std::copy(quantised_.begin(), quantised_.end(), code_.elements.begin());
      code_.scale = scale;
    }
    return code_;
  }

  // Returns the rotated row of the last call of Encode, with which the originals are scored exactly.
  absl::Span<const double> exact() const { return exact_; }

 private:
  CodeShape shape_;
  int planes_;
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
  std::vector<double> coded(dim);
  std::vector<double> error(dim);
  for (size_t token = 0; token < num_tokens; ++token) {
    const double multiplier = step == 0 ? 0 : std::nearbyint(unit_scales[token] / step);
    query.multipliers.push_back(static_cast<int16_t>(multiplier));
    const double weight = weights.empty() ? 1.0 : weights[token];
    const absl::Span<const double> row(exact.data() + token * dim, dim);
    for (size_t column = 0; column < dim; ++column) {
      coded[column] = step * multiplier * IntegerOf(query, token * num_columns + column);
      error[column] = weight * row[column] - coded[column];
    }
    const double length = std::fabs(weight) * NormOf(row);
    query.reach += NormOf(coded);
    query.slack += NormOf(error);
    // Adds to `slack` what rounding may add to a score. 2^-45 covers the rounding of `error`, whose relative error is
    // about 2^-52.
    query.slack += length * (kScoreSlack + 0x1p-45);
    if (shape.originals != ScalarType::kI8) query.slack += length * kRotationSlack;
  }
  query.reach *= kInflation;
  // The norms above are those of rotated vectors. The factor covers that the vectors themselves may be slightly
  // longer.
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
  // The bound for the coded query is slope * s + residual * sqrt(reach^2 - (s / length)^2), at the s from 0 to
  // `along` where it is largest. It rises up to s = reach * length * projection / hypotenuse, and falls from there.
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
