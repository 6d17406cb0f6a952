#include "kernels/codes/encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/codes/code_levels.h"
#include "kernels/codes/rounding.h"
#include "kernels/limits.h"
#include "kernels/quantize.h"

namespace maxsim {
namespace {

// Number of rows that are widened and rotated together.
constexpr int64_t kRowsAtATime = 32;

constexpr std::array<int, 3> kPlaneCounts = {1, 2, 4};

// Magnitudes of the levels of each magnitude cell.
constexpr std::array<double, 8> LevelsOf(int planes) {
  std::array<double, 8> levels{};
  for (int32_t cell = 0; cell < 8; ++cell) levels[cell] = CodeLevel(planes, true, cell);
  return levels;
}
constexpr std::array<double, 8> kTwoPlanes = LevelsOf(2);
constexpr std::array<double, 8> kFourPlanes = LevelsOf(4);

// Returns the sum of term(column) over `dim` columns, added in four lanes (kernels/codes/encode.h, step 2).
template <typename Term>
[[gnu::always_inline]] inline double SumInLanes(int32_t dim, Term term) {
  double lanes[4] = {};
  int32_t column = 0;
  for (; column + 4 <= dim; column += 4) {
    lanes[0] += term(column);
    lanes[1] += term(column + 1);
    lanes[2] += term(column + 2);
    lanes[3] += term(column + 3);
  }
  for (; column < dim; ++column) lanes[column % 4] += term(column);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

// The numbers from which a document's bounds are computed.
struct TokenMeasures {
  double norm = 0;
  double products[3] = {};         // B of 1, 2 and 4 planes, times the document's scale for I8
  double squared_lengths[3] = {};  // N of 1, 2 and 4 planes, exact
};

// Converts rows `first` .. `first` + `count` - 1 to FP32. For I8 rows these are the integer elements, without the
// scale.
void WidenRows(const DocumentsView& documents, int64_t first, int64_t count, float* target) {
  const auto dim = static_cast<size_t>(documents.dim);
  const size_t num_values = static_cast<size_t>(count) * dim;
  const char* const rows =
      static_cast<const char*>(documents.tokens) + static_cast<size_t>(first) * dim * SizeOf(documents.type);
  if (documents.type == ScalarType::kI8) {
    const auto* const elements = reinterpret_cast<const int8_t*>(rows);
    for (size_t idx = 0; idx < num_values; ++idx) target[idx] = elements[idx];
  } else {
    ConvertElements(documents.type, rows, ScalarType::kF32, target, num_values);
  }
}

double SumOfSquares(const float* row, int32_t dim) {
  return SumInLanes(dim, [&](int32_t column) {
    const double value = row[column];
    return value * value;
  });
}

double ScaleOfOriginal(const DocumentsView& documents, int64_t document) {
  return documents.type == ScalarType::kI8 ? documents.scales[document] : 1.0;
}

// Encodes rotated rows, one at a time.
class TokenEncoder {
 public:
  explicit TokenEncoder(int32_t dim) : dim_(dim), magnitudes_(CodeColumns(dim)), positive_(CodeColumns(dim)) {}

  // Finds the cells of a row. Returns the row's measures, multiplied by `original_scale` (the scale of I8 documents).
  TokenMeasures Encode(const float* row, double original_scale) {
    const double squares = SumOfSquares(row, dim_);
    const double rms = std::sqrt(squares / dim_);
    std::array<float, kCellCuts.size()> cuts;
    for (size_t idx = 0; idx < cuts.size(); ++idx) cuts[idx] = static_cast<float>(kCellCuts[idx] * rms);
    uint8_t* const __restrict magnitudes = magnitudes_.data();
    uint8_t* const __restrict positive = positive_.data();
    for (int32_t column = 0; column < dim_; ++column) {
      const float magnitude = std::fabs(row[column]);
      magnitudes[column] = static_cast<uint8_t>((magnitude > cuts[0]) + (magnitude > cuts[1]) + (magnitude > cuts[2]) +
                                                (magnitude > cuts[3]) + (magnitude > cuts[4]) + (magnitude > cuts[5]) +
                                                (magnitude > cuts[6]));
      positive[column] = row[column] < 0 ? 0 : 1;
    }
    return Measure(row, std::sqrt(squares), original_scale);
  }

  // Writes plane 0 or plane 1.
  void WriteSigns(uint8_t* target) const {
    Pack(target, [&](int32_t column) { return positive_[column]; });
  }
  void WriteHighBits(uint8_t* target) const {
    Pack(target, [&](int32_t column) { return static_cast<uint8_t>(magnitudes_[column] >> 2); });
  }
  void WriteFields(uint8_t* target) const {
    const int32_t groups = CodeWords(dim_) / 4;
    for (int32_t group = 0; group < groups; ++group) {
      // The 2-bit fields of this group (kernels/codes/code_layout.h): bytes[0] gets the fields of the even bits of
      // plane 0, bytes[1] those of the odd bits.
      uint8_t bytes[2][16] = {};
      for (int32_t bit = 0; bit < 8; ++bit) {
        const int32_t first = group * kCodeGroupColumns + bit * 16;
        for (int32_t byte = 0; byte < 16; ++byte) {
          const int32_t field = (magnitudes_[first + byte] & 3) << (bit / 2 * 2);
          bytes[bit % 2][byte] = static_cast<uint8_t>(bytes[bit % 2][byte] | field);
        }
      }
      for (int32_t word = 0; word < 4; ++word) {
        for (int32_t half = 0; half < 2; ++half) {
          std::memcpy(target + group * 32 + word * 8 + half * 4, bytes[half] + word * 4, 4);
        }
      }
    }
    std::memset(target + groups * 32, 0, FieldRowBytes(dim_) - static_cast<size_t>(groups) * 32);
    const int32_t num_columns = CodeColumns(dim_);
    for (int32_t column = groups * kCodeGroupColumns; column < num_columns; ++column) {
      const BitPlace place = FieldBit(dim_, column);
      target[place.byte] = static_cast<uint8_t>(target[place.byte] | (magnitudes_[column] & 3) << place.bit);
    }
  }

 private:
  TokenMeasures Measure(const float* row, double norm, double original_scale) const {
    const uint8_t* const cells = magnitudes_.data();
    const auto magnitude = [&](int32_t column) { return static_cast<double>(std::fabs(row[column])); };
    const double ones = SumInLanes(dim_, magnitude);
    const double twos = SumInLanes(dim_, [&](int32_t column) { return magnitude(column) * kTwoPlanes[cells[column]]; });
    const double fours =
        SumInLanes(dim_, [&](int32_t column) { return magnitude(column) * kFourPlanes[cells[column]]; });
    TokenMeasures measures;
    measures.norm = norm * original_scale;
    measures.products[0] = ones * original_scale;
    measures.products[1] = twos * original_scale;
    measures.products[2] = fours * original_scale;
    measures.squared_lengths[0] = dim_;
    // These are sums of integers, so they are exact.
    measures.squared_lengths[1] =
        SumInLanes(dim_, [&](int32_t column) { return kTwoPlanes[cells[column]] * kTwoPlanes[cells[column]]; });
    measures.squared_lengths[2] =
        SumInLanes(dim_, [&](int32_t column) { return kFourPlanes[cells[column]] * kFourPlanes[cells[column]]; });
    return measures;
  }

  // Writes one bit for each column to its place.
  template <typename BitOf>
  void Pack(uint8_t* target, BitOf bit_of) const {
    const int32_t groups = CodeWords(dim_) / 4;
    for (int32_t group = 0; group < groups; ++group) {
      uint8_t bytes[16] = {};
      for (int32_t bit = 0; bit < 8; ++bit) {
        const int32_t first = group * kCodeGroupColumns + bit * 16;
        for (int32_t byte = 0; byte < 16; ++byte) {
          bytes[byte] = static_cast<uint8_t>(bytes[byte] | bit_of(first + byte) << bit);
        }
      }
      std::memcpy(target + group * 16, bytes, sizeof(bytes));
    }
    std::memset(target + groups * 16, 0, PlaneRowBytes(dim_) - static_cast<size_t>(groups) * 16);
    const int32_t num_columns = CodeColumns(dim_);
    for (int32_t column = groups * kCodeGroupColumns; column < num_columns; ++column) {
      const BitPlace place = PlaneBit(dim_, column);
      target[place.byte] = static_cast<uint8_t>(target[place.byte] | bit_of(column) << place.bit);
    }
  }

  int32_t dim_;
  std::vector<uint8_t> magnitudes_;  // [CodeColumns]; those beyond dim_ stay 0, and so do their signs
  std::vector<uint8_t> positive_;
};

// Returns the document's scale, and writes its tokens' factors into `factors` unless that is null.
float ScaleOfCode(const CodeShape& shape, const std::vector<TokenMeasures>& tokens, uint8_t* factors) {
  double squares = 0;
  double largest = 0;
  for (const TokenMeasures& token : tokens) {
    squares += token.norm * token.norm;
    largest = std::max(largest, token.norm);
  }
  const double root_dim = std::sqrt(static_cast<double>(shape.dim));
  float scale = static_cast<float>(shape.factors ? largest / root_dim / kMaxFactor
                                                 : std::sqrt(squares / static_cast<double>(tokens.size()) / shape.dim));
  if (NominalNorm(shape, scale) < kMinNominalNorm) scale = 0;
  if (factors == nullptr) return scale;
  for (size_t idx = 0; idx < tokens.size(); ++idx) {
    const double factor = scale == 0 ? 0 : std::nearbyint(tokens[idx].norm / (scale * root_dim));
    factors[idx] = static_cast<uint8_t>(std::min<double>(factor, kMaxFactor));
  }
  return scale;
}

// Returns the bound of a document; `which` is a BoundIndex.
CodeBound BoundOf(const CodeShape& shape, const std::vector<TokenMeasures>& tokens, const uint8_t* factors, float scale,
                  int which) {
  if (scale == 0) return {};
  const double nominal = NominalNorm(shape, scale);
  const double unit = scale * LevelUnit(kPlaneCounts[which]);
  double slope = 0;
  double residual = 0;
  double length = 0;
  double norm = 0;
  for (size_t idx = 0; idx < tokens.size(); ++idx) {
    const TokenMeasures& token = tokens[idx];
    const double squared_norm = token.norm * token.norm;
    const double product = token.products[which];
    const double squared_length = token.squared_lengths[which];
    const double step = factors == nullptr ? unit : unit * factors[idx];
    double left = squared_norm;
    if (step > 0) {
      slope = std::max(slope, product / (step * squared_length));
      length = std::max(length, step * std::sqrt(squared_length));
      left = std::max(0.0, squared_norm - product * product / squared_length);
    }
    // Adding 2^-38 of the squared norm covers rounding: `left` is the difference of two numbers with relative errors
    // below 2^-40.
    residual = std::max(residual, left + squared_norm * 0x1p-38);
    norm = std::max(norm, token.norm);
  }
  return {.slope = RoundUpToF16(slope * kInflation),
          .residual = RoundUpToF16(std::sqrt(residual) / nominal * kInflation),
          .length = RoundUpToF16(length / nominal * kInflation),
          .norm = RoundUpToF16(norm / nominal * kInflation)};
}

absl::Status CheckValuesOf(const DocumentsView& documents, int64_t document) {
  const int64_t first = documents.offsets[document];
  const auto dim = static_cast<size_t>(documents.dim);
  const char* const rows =
      static_cast<const char*>(documents.tokens) + static_cast<size_t>(first) * dim * SizeOf(documents.type);
  const auto num_values = static_cast<size_t>(documents.offsets[document + 1] - first) * dim;
  if (const std::optional<size_t> bad = FindUnusableElement(documents.type, rows, num_values)) {
    return absl::InvalidArgumentError(absl::StrCat("document ", document, ", token ", *bad / dim, ", column ",
                                                   *bad % dim, ": the value is not finite or its magnitude is beyond ",
                                                   documents.type == ScalarType::kI8 ? 127.0f : kMaxAbsValue));
  }
  if (documents.type != ScalarType::kI8) return absl::OkStatus();
  const float scale = documents.scales[document];
  if (!(scale >= 0) || scale > kMaxAbsValue / kMaxInt8) {
    return absl::InvalidArgumentError(
        absl::StrCat("document ", document, ": its scale is ", scale, "; must be 0 to ", kMaxAbsValue / kMaxInt8));
  }
  return absl::OkStatus();
}

}  // namespace

CodeShape CodeShapeOf(const DocumentsView& documents, uint64_t rotation_seed, bool factors) {
  return {.dim = documents.dim,
          .originals = documents.type,
          .rotation_seed = documents.type == ScalarType::kI8 ? documents.rotation_seed : rotation_seed,
          .factors = factors};
}

absl::Status EncodeRange(const CodeShape& shape, const DocumentsView& documents, int64_t begin, int64_t end,
                         const CodesOutput& output) {
  if (absl::Status s = ValidateCodeShape(shape); !s.ok()) return s;
  if (shape != CodeShapeOf(documents, shape.rotation_seed, shape.factors)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the codes are for ", shape.dim, " columns of ", std::string(Name(shape.originals)), " with rotation seed ",
        shape.rotation_seed, "; the documents have ", documents.dim, " of ", std::string(Name(documents.type)),
        documents.type == ScalarType::kI8 ? absl::StrCat(" with rotation seed ", documents.rotation_seed) : ""));
  }
  const auto dim = static_cast<size_t>(shape.dim);
  const size_t plane_bytes = PlaneRowBytes(shape.dim);
  TokenEncoder encoder(shape.dim);
  std::vector<float> rows(static_cast<size_t>(kRowsAtATime) * dim);
  std::vector<TokenMeasures> measures;
  for (int64_t document = begin; document < end; ++document) {
    if (absl::Status s = CheckValuesOf(documents, document); !s.ok()) return s;
    const int64_t last = documents.offsets[document + 1];
    measures.clear();
    for (int64_t first = documents.offsets[document]; first < last; first += kRowsAtATime) {
      const int64_t count = std::min(kRowsAtATime, last - first);
      WidenRows(documents, first, count, rows.data());
      if (documents.type != ScalarType::kI8) {
        RotateRows(shape.rotation_seed, shape.dim, absl::MakeSpan(rows.data(), static_cast<size_t>(count) * dim));
      }
      for (int64_t idx = 0; idx < count; ++idx) {
        measures.push_back(
            encoder.Encode(rows.data() + static_cast<size_t>(idx) * dim, ScaleOfOriginal(documents, document)));
        const auto token = static_cast<size_t>(first + idx);
        encoder.WriteSigns(output.plane0 + token * plane_bytes);
        if (output.plane1 != nullptr) encoder.WriteHighBits(output.plane1 + token * plane_bytes);
        if (output.planes23 != nullptr) encoder.WriteFields(output.planes23 + token * 2 * plane_bytes);
      }
    }
    uint8_t* const factors = shape.factors ? output.factors + documents.offsets[document] : nullptr;
    const float scale = ScaleOfCode(shape, measures, factors);
    output.scales[document] = scale;
    for (int which = 0; which < 3; ++which) {
      if (output.bounds[which] == nullptr) continue;
      output.bounds[which][document] = BoundOf(shape, measures, factors, scale, which);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EncodedDocuments> EncodedDocuments::Encode(const CodeShape& shape, const DocumentsView& documents) {
  if (absl::Status s = ValidateDocuments(documents); !s.ok()) return s;
  if (absl::Status s = ValidateCodeShape(shape); !s.ok()) return s;
  EncodedDocuments codes;
  codes.shape_ = shape;
  const auto num_documents = static_cast<size_t>(documents.num_documents);
  const auto num_tokens = static_cast<size_t>(documents.num_tokens());
  if (num_documents == 0) {
    codes.offsets_ = {0};
    return codes;
  }
  codes.offsets_.assign(documents.offsets, documents.offsets + num_documents + 1);
  codes.plane0_ = Lines(num_tokens * PlaneRowBytes(shape.dim));
  codes.plane1_ = Lines(num_tokens * PlaneRowBytes(shape.dim));
  codes.planes23_ = Lines(num_tokens * FieldRowBytes(shape.dim));
  codes.factors_.resize(shape.factors ? num_tokens : 0);
  codes.scales_.resize(num_documents);
  CodesOutput output = {.plane0 = codes.plane0_.data()->bytes,
                        .plane1 = codes.plane1_.data()->bytes,
                        .planes23 = codes.planes23_.data()->bytes,
                        .factors = codes.factors_.data(),
                        .scales = codes.scales_.data()};
  for (int which = 0; which < 3; ++which) {
    codes.bounds_[which].resize(num_documents);
    output.bounds[which] = codes.bounds_[which].data();
  }
  if (absl::Status s = EncodeRange(shape, documents, 0, documents.num_documents, output); !s.ok()) return s;
  return codes;
}

CodesView EncodedDocuments::view(int planes) const {
  CodesView view;
  view.shape = shape_;
  view.planes = planes;
  view.num_documents = static_cast<int64_t>(scales_.size());
  view.offsets = offsets_.data();
  if (scales_.empty()) return view;
  view.plane0 = plane0_.data()->bytes;
  view.plane1 = planes >= 2 ? plane1_.data()->bytes : nullptr;
  view.planes23 = planes == 4 ? planes23_.data()->bytes : nullptr;
  view.factors = shape_.factors ? factors_.data() : nullptr;
  view.scales = scales_.data();
  for (int which = 0; which <= BoundIndex(planes); ++which) view.bounds[which] = bounds_[which].data();
  return view;
}

double NormSpread(const DocumentsView& documents) {
  const auto dim = static_cast<size_t>(documents.dim);
  std::vector<float> row(dim);
  std::vector<double> norms;
  double deviations = 0;
  for (int64_t document = 0; document < documents.num_documents; ++document) {
    norms.clear();
    double squares = 0;
    for (int64_t token = documents.offsets[document]; token < documents.offsets[document + 1]; ++token) {
      WidenRows(documents, token, 1, row.data());
      const double square = SumOfSquares(row.data(), documents.dim);
      squares += square;
      norms.push_back(std::sqrt(square));
    }
    const double typical = std::sqrt(squares / static_cast<double>(norms.size()));
    for (const double norm : norms) {
      if (typical > 0) deviations += (norm / typical - 1) * (norm / typical - 1);
    }
  }
  return documents.num_documents == 0 ? 0 : std::sqrt(deviations / static_cast<double>(documents.num_tokens()));
}

}  // namespace maxsim
