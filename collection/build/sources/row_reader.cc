#include "collection/build/sources/row_reader.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include "base/text.h"
#include "collection/build/sources/document_quantizer.h"
#include "collection/formats/element_type.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

// Tokens are converted, checked and written in blocks of this size: large enough that system calls cost little, and
// small enough for a cache.
constexpr int64_t kBlockBytes = int64_t{1} << 20;

// Bytes of FP32 values that each thread quantises per batch: some milliseconds of work, much more than the tens of
// microseconds that starting a thread takes.
constexpr int64_t kQuantizedBytesPerThread = int64_t{2} << 20;

// Narrows FP64 values to FP32, because ConvertElements does not take FP64.
void NarrowDoubles(const void* source, size_t count, float* values) {
  for (size_t idx = 0; idx < count; ++idx) {
    values[idx] = static_cast<float>(LoadFloat(ElementType::kF64, source, idx));
  }
}

}  // namespace

RowReader::RowReader(const TokenEncoding& encoding, const Catalog& catalog, TokenSource& tokens)
    : encoding_(encoding), catalog_(catalog), tokens_(tokens) {}

absl::StatusOr<RowReader::Block> RowReader::Next() { return quantizes() ? NextQuantized() : NextConverted(); }

absl::StatusOr<RowReader::Block> RowReader::NextConverted() {
  const auto element_bytes = static_cast<int64_t>(std::max(SizeOf(tokens_.type()), SizeOf(encoding_.storage)));
  const int64_t most_rows = std::max<int64_t>(1, kBlockBytes / (tokens_.dim() * element_bytes));
  Block block{.document = document_, .first_row = row_};
  int64_t document = document_;
  int64_t row = row_;
  while (block.num_rows < most_rows && document < catalog_.num_documents()) {
    const int64_t count = std::min(most_rows - block.num_rows, length(document) - row);
    block.num_rows += count;
    row += count;
    if (row < length(document)) break;
    ++document;
    row = 0;
  }
  absl::StatusOr<const void*> source = tokens_.Next(block.num_rows);
  if (!source.ok()) return source.status();
  absl::StatusOr<const char*> rows = Convert(*source, block.num_rows);
  if (!rows.ok()) return rows.status();
  block.rows = *rows;
  if (encoding_.storage == ScalarType::kI8) CountStored(*rows, block);
  document_ = document;
  row_ = row;
  return block;
}

// Adds up the quantisation loss of rows that arrive in i8. The block may begin and end within a document.
void RowReader::CountStored(const char* rows, const Block& block) {
  const auto* elements = reinterpret_cast<const int8_t*>(rows);
  int64_t row = block.first_row;
  int64_t left = block.num_rows;
  for (int64_t document = block.document; left > 0; ++document, row = 0) {
    const int64_t count = std::min(left, length(document) - row);
    const QuantizationLoss found = LossOf(elements, nullptr, count, tokens_.dim());
    const auto idx = static_cast<size_t>(document - first_loss_);
    if (idx == losses_.size()) losses_.emplace_back();
    losses_[idx].Add(found);
    losses_[idx].num_documents = losses_[idx].num_tokens() > 0 ? 1 : 0;
    elements += count * tokens_.dim();
    left -= count;
  }
}

absl::StatusOr<const char*> RowReader::Convert(const void* source, int64_t num_rows) {
  const auto count = static_cast<size_t>(num_rows * tokens_.dim());
  ScalarType from = ScalarType::kF32;
  const void* values = source;
  if (tokens_.type() == ElementType::kF64) {
    narrowed_.resize(count);
    NarrowDoubles(source, count, narrowed_.data());
    values = narrowed_.data();
  } else {
    from = tokens_.type() == ElementType::kI8 ? ScalarType::kI8 : *ToScalarType(tokens_.type());
  }
  if (from != encoding_.storage) {
    converted_.resize(count * SizeOf(encoding_.storage));
    ConvertElements(from, values, encoding_.storage, converted_.data(), count);
    values = converted_.data();
  }
  // Checks the converted values: NaN and infinity survive a conversion, and a value that is too large becomes infinity.
  if (const std::optional<size_t> index = FindUnusableElement(encoding_.storage, values, count)) {
    return UnusableValue(source, static_cast<int64_t>(*index));
  }
  return static_cast<const char*>(values);
}

absl::StatusOr<RowReader::Block> RowReader::NextQuantized() {
  const auto dim = static_cast<int32_t>(tokens_.dim());
  const int64_t batch_rows = encoding_.num_threads * kQuantizedBytesPerThread / (dim * int64_t{sizeof(float)});
  Block block{.document = document_};
  int64_t end = document_;
  do {
    block.num_rows += length(end++);
  } while (end < catalog_.num_documents() && block.num_rows + length(end) <= batch_rows);
  absl::StatusOr<absl::Span<float>> rows = NextAsFloats(block.num_rows);
  if (!rows.ok()) return rows.status();
  const auto num_documents = static_cast<size_t>(end - document_);
  converted_.resize(rows->size());
  scales_.resize(num_documents);
  first_scale_ = document_;
  std::vector<QuantizationLoss> losses(num_documents);
  const DocumentQuantizer quantizer(dim, encoding_.rotation_seed, encoding_.num_threads);
  quantizer.Quantize(absl::MakeConstSpan(catalog_.lengths).subspan(static_cast<size_t>(document_), num_documents),
                     *rows, reinterpret_cast<int8_t*>(converted_.data()), absl::MakeSpan(scales_),
                     absl::MakeSpan(losses));
  losses_.insert(losses_.end(), losses.begin(), losses.end());
  for (size_t idx = 0; idx < num_documents; ++idx) {
    absl::Status status = CheckScale(document_ + static_cast<int64_t>(idx), scales_[idx]);
    if (!status.ok()) return status;
  }
  block.rows = converted_.data();
  document_ = end;
  return block;
}

// Returns the next rows in FP32, after checking that every value is usable.
absl::StatusOr<absl::Span<float>> RowReader::NextAsFloats(int64_t num_rows) {
  absl::StatusOr<const void*> source = tokens_.Next(num_rows);
  if (!source.ok()) return source.status();
  const auto count = static_cast<size_t>(num_rows * tokens_.dim());
  narrowed_.resize(count);
  if (tokens_.type() == ElementType::kF64) {
    NarrowDoubles(*source, count, narrowed_.data());
  } else {
    ConvertElements(*ToScalarType(tokens_.type()), *source, ScalarType::kF32, narrowed_.data(), count);
  }
  if (const std::optional<size_t> index = FindUnusableElement(ScalarType::kF32, narrowed_.data(), count)) {
    return UnusableValue(*source, static_cast<int64_t>(*index));
  }
  return absl::MakeSpan(narrowed_);
}

absl::StatusOr<float> RowReader::ScaleOf(int64_t document) {
  absl::StatusOr<float> scale;
  if (quantizes()) {
    scale = scales_[static_cast<size_t>(document - first_scale_)];
  } else {
    scale = tokens_.NextStoredScale();
    if (!scale.ok()) return scale;
    if (absl::Status status = CheckScale(document, *scale); !status.ok()) return status;
  }
  if (absl::Status status = CountLoss(document, *scale); !status.ok()) return status;
  return scale;
}

absl::Status RowReader::CountLoss(int64_t document, float scale) {
  const QuantizationLoss loss = losses_.front();
  losses_.pop_front();
  ++first_loss_;
  if (scale == 0 || loss.num_tokens() == 0) return absl::OkStatus();
  loss_.Add(loss);
  if (!encoding_.refuse_lossy) return absl::OkStatus();
  return Invalid("tokens: document ", document, ", id ", catalog_.ids.Format(document), ": i8 keeps too little of ",
                 Describe(loss), ", whose largest value is far above those of its other tokens");
}

absl::Status RowReader::CheckScale(int64_t document, float scale) const {
  if (scale <= kMaxScale) return absl::OkStatus();
  return Invalid("tokens: document ", document, ", id ", catalog_.ids.Format(document), ": ",
                 scale * static_cast<float>(kMaxInt8), " after the rotation is beyond the limit of ", kMaxAbsValue);
}

// Returns an error with the row, column and document of element `index` of the rows that were read last.
absl::Status RowReader::UnusableValue(const void* source, int64_t index) const {
  int64_t row = row_ + index / tokens_.dim();
  int64_t document = document_;
  while (row >= length(document)) row -= length(document++);
  int64_t input_row = row;
  for (int64_t before = 0; before < document; ++before) input_row += length(before);
  const bool is_int8 = tokens_.type() == ElementType::kI8;
  const double value = is_int8 ? static_cast<const int8_t*>(source)[index]
                               : LoadFloat(tokens_.type(), source, static_cast<size_t>(index));
  std::string problem = is_int8 ? "is not in -127 .. 127" : "is not finite";
  if (!is_int8 && std::isfinite(value)) {
    // The value is finite. If it is within kMaxAbsValue and was still refused, it is too large for f16.
    problem = std::fabs(value) <= kMaxAbsValue && encoding_.storage == ScalarType::kF16
                  ? std::string("is too large for f16 (largest: 65504)")
                  : Cat("is beyond the limit of ", kMaxAbsValue);
  }
  return Invalid("tokens: row ", input_row, ", column ", index % tokens_.dim(), " (token ", row, " of document ",
                 document, ", id ", catalog_.ids.Format(document), "): ", value, " ", problem);
}

}  // namespace maxsim::collection
