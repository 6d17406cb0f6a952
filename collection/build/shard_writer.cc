#include "collection/build/shard_writer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/build/document_quantizer.h"
#include "collection/safetensors.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

// Tokens are converted, checked and written in pieces of this size: large against a system call, small against a cache.
constexpr int64_t kBlockBytes = int64_t{1} << 20;

// FP32 values that a thread gets to quantise at a time, in bytes: some milliseconds of work, against the tens of
// microseconds that starting the thread takes.
constexpr int64_t kQuantizedBytesPerThread = int64_t{2} << 20;

std::string_view SafetensorsName(ScalarType storage) {
  switch (storage) {
    case ScalarType::kF16:
      return "F16";
    case ScalarType::kBF16:
      return "BF16";
    case ScalarType::kF32:
      return "F32";
    case ScalarType::kI8:
      return "I8";
  }
  return "?";
}

std::string FormatHeader(const ShardPlan& plan, const TokenEncoding& encoding, int64_t dim, IdType id_type,
                         bool has_payloads) {
  std::vector<SafetensorsTensor> tensors;
  const auto add = [&](std::string_view name, std::string_view dtype, std::vector<int64_t> shape) {
    tensors.push_back({std::string(name), std::string(dtype), std::move(shape), 0, 0});
  };
  // Tokens come first, for their alignment; then what is 8 bytes wide, then 4, then bytes.
  add(kTokens, SafetensorsName(encoding.storage), {plan.num_tokens, dim});
  add(kOffsets, "I64", {plan.num_documents + 1});
  if (id_type == IdType::kInt64) {
    add(kIds, "I64", {plan.num_documents});
  } else {
    add(kIdOffsets, "I64", {plan.num_documents + 1});
  }
  if (has_payloads) add(kPayloadOffsets, "I64", {plan.num_documents + 1});
  std::vector<std::pair<std::string, std::string>> metadata = {{"format", std::string(kShardFormat)},
                                                               {"format_version", std::string(kShardFormatVersion)}};
  if (encoding.storage == ScalarType::kI8) {
    add(kScales, "F32", {plan.num_documents});
    metadata.emplace_back(kRotationKey, kRotationKind);
    metadata.emplace_back(kRotationSeedKey, Cat(encoding.rotation_seed));
  }
  if (id_type == IdType::kString) add(kIdBytes, "U8", {plan.id_bytes});
  if (has_payloads) add(kPayloadBytes, "U8", {plan.payload_bytes});
  return FormatSafetensorsHeader(metadata, tensors, kWriterAlignment);
}

class Writer {
 public:
  Writer(OutputFile& file, const ShardPlan& plan, const TokenEncoding& encoding, const Catalog& catalog,
         TokenSource& tokens, PayloadSource* payloads, const ShardProgress& progress)
      : file_(file),
        plan_(plan),
        encoding_(encoding),
        storage_(encoding.storage),
        catalog_(catalog),
        tokens_(tokens),
        payloads_(payloads),
        progress_(progress) {}

  // Writes the sections in the order of FormatHeader.
  absl::Status Write() {
    const bool has_payloads = catalog_.has_payloads();
    const IdType id_type = catalog_.ids.type();
    absl::Status status = file_.Write(FormatHeader(plan_, encoding_, tokens_.dim(), id_type, has_payloads));
    if (status.ok()) status = quantizes() ? WriteQuantizedTokens() : WriteTokens();
    if (status.ok() && storage_ == ScalarType::kI8 && !quantizes()) status = TakeScales();
    if (status.ok()) status = WriteOffsets([&](int64_t document) { return int64_t{catalog_.lengths[document]}; });
    if (status.ok() && id_type == IdType::kInt64) status = WriteIntIds();
    if (status.ok() && id_type == IdType::kString) {
      status = WriteOffsets([&](int64_t document) { return catalog_.ids.num_bytes(document); });
    }
    if (status.ok() && has_payloads) {
      status = WriteOffsets([&](int64_t document) { return int64_t{catalog_.payload_sizes[document]}; });
    }
    if (status.ok()) status = file_.Write(scales_.data(), scales_.size() * sizeof(float));
    if (status.ok() && id_type == IdType::kString) status = WriteStringIds();
    if (status.ok() && has_payloads) status = WritePayloads();
    return status;
  }

 private:
  int64_t end_document() const { return plan_.first_document + plan_.num_documents; }
  bool quantizes() const { return storage_ == ScalarType::kI8 && tokens_.type() != ElementType::kI8; }

  absl::Status WriteInt64(int64_t value) { return file_.Write(&value, sizeof(value)); }

  template <typename Step>
  absl::Status WriteOffsets(const Step& step) {
    int64_t offset = 0;
    absl::Status status = WriteInt64(offset);
    for (int64_t document = plan_.first_document; document < end_document() && status.ok(); ++document) {
      offset += step(document);
      status = WriteInt64(offset);
    }
    return status;
  }

  absl::Status WriteTokens();
  absl::Status WriteQuantizedTokens();
  absl::StatusOr<absl::Span<float>> NextAsFloats(int64_t num_rows, int64_t first_row);
  absl::Status TakeScales();
  absl::Status CheckScales(int64_t first_document) const;
  absl::Status WriteBlock(const void* source, int64_t num_rows, int64_t first_row);
  absl::Status UnusableValue(const void* source, int64_t index, int64_t first_row) const;
  absl::Status WriteIntIds();
  absl::Status WriteStringIds();
  absl::Status WritePayloads();
  absl::Status Report(int64_t documents) {
    return progress_ == nullptr ? absl::OkStatus() : progress_(documents, file_.num_bytes());
  }

  OutputFile& file_;
  const ShardPlan& plan_;
  const TokenEncoding& encoding_;
  const ScalarType storage_;
  const Catalog& catalog_;
  TokenSource& tokens_;
  PayloadSource* const payloads_;
  const ShardProgress& progress_;
  std::vector<float> narrowed_;  // a block of FP64 input, or one to be quantised, in FP32
  std::vector<char> converted_;  // a block as it is stored
  std::vector<float> scales_;    // i8: of the documents so far
};

absl::Status Writer::WriteTokens() {
  const int64_t row_bytes = tokens_.dim() * static_cast<int64_t>(std::max(SizeOf(tokens_.type()), SizeOf(storage_)));
  const int64_t block_rows = std::max<int64_t>(1, kBlockBytes / row_bytes);
  int64_t document = plan_.first_document;
  int64_t document_end = catalog_.lengths[document];  // its last row + 1 in the shard
  for (int64_t row = 0; row < plan_.num_tokens;) {
    const int64_t num_rows = std::min(block_rows, plan_.num_tokens - row);
    absl::StatusOr<const void*> source = tokens_.Next(num_rows);
    if (!source.ok()) return source.status();
    if (absl::Status status = WriteBlock(*source, num_rows, row); !status.ok()) return status;
    row += num_rows;
    while (document_end <= row && ++document < end_document()) document_end += catalog_.lengths[document];
    if (absl::Status status = Report(document - plan_.first_document); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// The next rows in FP32, of which each value has been found usable.
absl::StatusOr<absl::Span<float>> Writer::NextAsFloats(int64_t num_rows, int64_t first_row) {
  absl::StatusOr<const void*> source = tokens_.Next(num_rows);
  if (!source.ok()) return source.status();
  const auto count = static_cast<size_t>(num_rows * tokens_.dim());
  narrowed_.resize(count);
  if (tokens_.type() == ElementType::kF64) {
    for (size_t idx = 0; idx < count; ++idx) {
      narrowed_[idx] = static_cast<float>(LoadFloat(tokens_.type(), *source, idx));
    }
  } else {
    ConvertElements(*ToScalarType(tokens_.type()), *source, ScalarType::kF32, narrowed_.data(), count);
  }
  if (const std::optional<size_t> index = FindUnusableElement(ScalarType::kF32, narrowed_.data(), count)) {
    return UnusableValue(*source, static_cast<int64_t>(*index), first_row);
  }
  return absl::MakeSpan(narrowed_);
}

absl::Status Writer::CheckScales(int64_t first_document) const {
  for (int64_t document = first_document; document < plan_.first_document + static_cast<int64_t>(scales_.size());
       ++document) {
    const float scale = scales_[static_cast<size_t>(document - plan_.first_document)];
    if (scale <= kMaxScale) continue;
    return Invalid("tokens: document ", document, ", id ", catalog_.ids.Format(document), ": ",
                   scale * static_cast<float>(kMaxInt8), " after the rotation is beyond the limit of ", kMaxAbsValue);
  }
  return absl::OkStatus();
}

absl::Status Writer::WriteQuantizedTokens() {
  const auto dim = static_cast<int32_t>(tokens_.dim());
  const DocumentQuantizer quantizer(dim, encoding_.rotation_seed, encoding_.num_threads);
  const int64_t batch_rows = encoding_.num_threads * kQuantizedBytesPerThread / (dim * int64_t{sizeof(float)});
  int64_t row = 0;
  for (int64_t document = plan_.first_document; document < end_document();) {
    const int64_t first = document;
    int64_t num_rows = 0;
    do {
      num_rows += catalog_.lengths[document++];
    } while (document < end_document() && num_rows + catalog_.lengths[document] <= batch_rows);
    absl::StatusOr<absl::Span<float>> rows = NextAsFloats(num_rows, row);
    if (!rows.ok()) return rows.status();
    converted_.resize(rows->size());
    scales_.resize(static_cast<size_t>(document - plan_.first_document));
    const auto num_documents = static_cast<size_t>(document - first);
    quantizer.Quantize(absl::MakeConstSpan(catalog_.lengths).subspan(static_cast<size_t>(first), num_documents), *rows,
                       reinterpret_cast<int8_t*>(converted_.data()), absl::MakeSpan(scales_).last(num_documents));
    if (absl::Status status = CheckScales(first); !status.ok()) return status;
    if (absl::Status status = file_.Write(converted_.data(), converted_.size()); !status.ok()) return status;
    row += num_rows;
    if (absl::Status status = Report(document - plan_.first_document); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Scales of rows that were quantised before.
absl::Status Writer::TakeScales() {
  for (int64_t document = plan_.first_document; document < end_document(); ++document) {
    const absl::StatusOr<float> scale = tokens_.NextStoredScale();
    if (!scale.ok()) return scale.status();
    scales_.push_back(*scale);
  }
  return CheckScales(plan_.first_document);
}

absl::Status Writer::WriteBlock(const void* source, int64_t num_rows, int64_t first_row) {
  const auto count = static_cast<size_t>(num_rows * tokens_.dim());
  ScalarType from = ScalarType::kF32;
  const void* values = source;
  if (tokens_.type() == ElementType::kF64) {
    narrowed_.resize(count);
    for (size_t idx = 0; idx < count; ++idx)
      narrowed_[idx] = static_cast<float>(LoadFloat(tokens_.type(), source, idx));
    values = narrowed_.data();
  } else {
    from = tokens_.type() == ElementType::kI8 ? ScalarType::kI8 : *ToScalarType(tokens_.type());
  }
  if (from != storage_) {
    converted_.resize(count * SizeOf(storage_));
    ConvertElements(from, values, storage_, converted_.data(), count);
    values = converted_.data();
  }
  // What will be stored is checked: narrowing keeps NaN and infinity, and makes infinity of what is too large.
  if (const std::optional<size_t> index = FindUnusableElement(storage_, values, count)) {
    return UnusableValue(source, static_cast<int64_t>(*index), first_row);
  }
  return file_.Write(values, count * SizeOf(storage_));
}

absl::Status Writer::UnusableValue(const void* source, int64_t index, int64_t first_row) const {
  int64_t row = first_row + index / tokens_.dim();
  int64_t document = plan_.first_document;
  while (row >= catalog_.lengths[document]) row -= catalog_.lengths[document++];
  int64_t input_row = row;
  for (int64_t before = 0; before < document; ++before) input_row += catalog_.lengths[before];
  const bool is_int8 = tokens_.type() == ElementType::kI8;
  const double value = is_int8 ? static_cast<const int8_t*>(source)[index]
                               : LoadFloat(tokens_.type(), source, static_cast<size_t>(index));
  std::string problem = is_int8 ? "is not in -127 .. 127" : "is not finite";
  if (!is_int8 && std::isfinite(value)) {
    // f16 ends far below the limit; the others pass it by rounding up at most.
    problem = std::fabs(value) <= kMaxAbsValue && storage_ == ScalarType::kF16
                  ? std::string("is too large for f16 (largest: 65504)")
                  : Cat("is beyond the limit of ", kMaxAbsValue,
                        std::fabs(value) <= kMaxAbsValue ? Cat(" when rounded to ", Name(storage_)).c_str() : "");
  }
  return Invalid("tokens: row ", input_row, ", column ", index % tokens_.dim(), " (token ", row, " of document ",
                 document, ", id ", catalog_.ids.Format(document), "): ", value, " ", problem);
}

absl::Status Writer::WriteIntIds() {
  absl::Status status;
  for (int64_t document = plan_.first_document; document < end_document() && status.ok(); ++document) {
    status = WriteInt64(catalog_.ids.int_id(document));
  }
  return status;
}

absl::Status Writer::WriteStringIds() {
  absl::Status status;
  for (int64_t document = plan_.first_document; document < end_document() && status.ok(); ++document) {
    status = file_.Write(catalog_.ids.string_id(document));
  }
  return status;
}

absl::Status Writer::WritePayloads() {
  for (int64_t document = plan_.first_document; document < end_document(); ++document) {
    absl::StatusOr<std::string_view> payload = payloads_->Next();
    if (!payload.ok()) return payload.status();
    if (static_cast<int64_t>(payload->size()) != catalog_.payload_sizes[document]) {
      return absl::FailedPreconditionError(Cat("the payload of document ", document, ", id ",
                                               catalog_.ids.Format(document),
                                               ", is not what was read first: ", "the input changed during the build"));
    }
    if (absl::Status status = file_.Write(*payload); !status.ok()) return status;
    if (document % 1024 == 0) {
      if (absl::Status status = Report(plan_.num_documents); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ShardFileBytes(const ShardPlan& plan, ScalarType storage, int64_t dim, IdType id_type, bool has_payloads) {
  constexpr auto kWord = static_cast<int64_t>(sizeof(int64_t));
  // There are at most seven tensors: the header's text is far below the alignment it is padded to.
  int64_t bytes = kWriterAlignment + plan.num_tokens * dim * static_cast<int64_t>(SizeOf(storage));
  bytes += (plan.num_documents + 1) * kWord;
  bytes += id_type == IdType::kInt64 ? plan.num_documents * kWord : (plan.num_documents + 1) * kWord + plan.id_bytes;
  if (has_payloads) bytes += (plan.num_documents + 1) * kWord + plan.payload_bytes;
  if (storage == ScalarType::kI8) bytes += plan.num_documents * static_cast<int64_t>(sizeof(float));
  return bytes;
}

absl::StatusOr<ShardEntry> WriteShard(const std::string& folder, const std::string& file, const ShardPlan& plan,
                                      const TokenEncoding& encoding, const Catalog& catalog, TokenSource& tokens,
                                      PayloadSource* payloads, const ShardProgress& progress) {
  absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(JoinPath(folder, file));
  if (!output.ok()) return output.status();
  Writer writer(**output, plan, encoding, catalog, tokens, payloads, progress);
  if (absl::Status status = writer.Write(); !status.ok()) return status;
  if ((*output)->num_bytes() != plan.num_bytes) {
    return absl::InternalError(Cat(file, ": ", (*output)->num_bytes(), " bytes written, ", plan.num_bytes, " planned"));
  }
  ShardEntry entry{file, plan.num_documents, plan.num_tokens, plan.num_bytes, (*output)->checksum()};
  if (absl::Status status = (*output)->Commit(); !status.ok()) return status;
  return entry;
}

}  // namespace maxsim::collection
