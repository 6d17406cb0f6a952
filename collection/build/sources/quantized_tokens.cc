#include "collection/build/sources/quantized_tokens.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "base/text.h"
#include "collection/formats/npy.h"
#include "kernels/quantize.h"

namespace maxsim::collection {
namespace {

// Returns the value of each of the 256 bytes.
std::array<float, 256> ByteValues(ElementType type) {
  std::array<float, 256> values;
  for (size_t byte = 0; byte < values.size(); ++byte) {
    const auto bits = static_cast<uint8_t>(byte);
    values[byte] = type == ElementType::kI8 ? static_cast<float>(static_cast<int8_t>(bits)) : F8E4M3ToF32(bits);
  }
  return values;
}

enum class Granularity { kAll, kDocument, kToken };

class QuantizedTokens : public TokenSource {
 public:
  QuantizedTokens(ArrayInput tokens, Quantization quantization, Granularity granularity, std::vector<int32_t> lengths)
      : values_(ByteValues(tokens.type)),
        tokens_(std::move(tokens)),
        quantization_(std::move(quantization)),
        granularity_(granularity),
        lengths_(std::move(lengths)) {}

  ElementType type() const override { return ElementType::kF32; }
  int64_t dim() const override { return tokens_.shape[1]; }
  int64_t num_tokens() const override { return tokens_.shape[0]; }

  absl::StatusOr<const void*> Next(int64_t num_rows) override {
    const auto columns = static_cast<size_t>(dim());
    bytes_.resize(static_cast<size_t>(num_rows) * columns);
    if (absl::Status status = tokens_.bytes->Read(bytes_.data(), bytes_.size()); !status.ok()) return status;
    rows_.resize(bytes_.size());
    for (size_t begin = 0; begin < bytes_.size(); begin += columns) {
      if (absl::Status status = NextRow(); !status.ok()) return status;
      for (size_t idx = begin; idx < begin + columns; ++idx) rows_[idx] = scale_ * values_[bytes_[idx]];
      if (quantization_.rotation_seed.has_value()) {
        Unrotate(*quantization_.rotation_seed, absl::MakeSpan(rows_).subspan(begin, columns));
      }
    }
    return rows_.data();
  }

 private:
  // Sets scale_ to the scale of the next row.
  absl::Status NextRow() {
    const bool due = granularity_ == Granularity::kToken || num_scales_ == 0 ||
                     (granularity_ == Granularity::kDocument && left_ == 0);
    if (granularity_ == Granularity::kDocument) {
      if (left_ == 0) left_ = lengths_[static_cast<size_t>(num_scales_)];
      --left_;
    }
    return due && quantization_.scales.has_value() ? NextScale() : absl::OkStatus();
  }

  absl::Status NextScale() {
    ArrayInput& scales = *quantization_.scales;
    std::array<char, sizeof(double)> element;
    if (absl::Status status = scales.bytes->Read(element.data(), SizeOf(scales.type)); !status.ok()) return status;
    const double scale = LoadFloat(scales.type, element.data(), 0);
    // This form of the condition also refuses NaN.
    if (!(scale >= 0 && std::isfinite(static_cast<float>(scale)))) {
      return Invalid(scales.origin, "[", num_scales_, "]: ", scale, " is not a finite number, 0 or more");
    }
    scale_ = static_cast<float>(scale);
    ++num_scales_;
    return absl::OkStatus();
  }

  const std::array<float, 256> values_;
  ArrayInput tokens_;
  Quantization quantization_;
  const Granularity granularity_;
  const std::vector<int32_t> lengths_;
  int64_t num_scales_ = 0;  // read so far
  int64_t left_ = 0;        // rows of the present document
  float scale_ = 1;
  std::vector<uint8_t> bytes_;
  std::vector<float> rows_;
};

absl::StatusOr<Granularity> FindGranularity(const ArrayInput& scales, int64_t num_tokens, int64_t num_documents) {
  std::vector<int64_t> shape = scales.shape;
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  if (!IsInteger(scales.type) && !IsQuantized(scales.type) && shape.size() <= 1) {
    const int64_t count = shape.empty() ? 1 : shape[0];
    if (count == num_tokens) return Granularity::kToken;
    if (count == num_documents) return Granularity::kDocument;
    if (count == 1) return Granularity::kAll;
  }
  return Invalid(scales.origin, ": ", Name(scales.type), " ", FormatShape(scales.shape),
                 ", floating-point values expected, one for each of the ", num_documents, " documents or of the ",
                 num_tokens, " tokens, or one for all");
}

}  // namespace

bool IsQuantized(ElementType type) { return type == ElementType::kI8 || type == ElementType::kF8E4M3; }

absl::StatusOr<std::unique_ptr<TokenSource>> OpenQuantizedTokens(ArrayInput tokens, Quantization quantization,
                                                                 std::vector<int32_t> lengths) {
  Granularity granularity = Granularity::kAll;
  if (quantization.scales.has_value()) {
    absl::StatusOr<Granularity> found =
        FindGranularity(*quantization.scales, tokens.shape[0], static_cast<int64_t>(lengths.size()));
    if (!found.ok()) return found.status();
    granularity = *found;
  } else if (tokens.type == ElementType::kI8) {
    return Invalid(tokens.origin, ": i8 values need \"scales\", one for each document or each token");
  }
  return std::make_unique<QuantizedTokens>(std::move(tokens), std::move(quantization), granularity, std::move(lengths));
}

}  // namespace maxsim::collection
