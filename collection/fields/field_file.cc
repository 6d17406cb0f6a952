#include "collection/fields/field_file.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "collection/fields/time_text.h"
#include "collection/formats/safetensors.h"

namespace maxsim::collection {
namespace {

constexpr int64_t kMaxTerms = UINT32_MAX - 1;

int64_t BitBytes(int64_t num_bits) { return (num_bits + 7) / 8; }

bool Bit(const uint8_t* bits, int64_t idx) { return ((bits[idx / 8] >> (idx % 8)) & 1) != 0; }

bool HasTerms(FieldKind kind) { return kind == FieldKind::kKeyword || kind == FieldKind::kKeywords; }

std::string TensorName(const Field& field, std::string_view part) { return Cat(field.name, ".", part); }

// Finds and checks the tensors of one field.
class ColumnParser {
 public:
  ColumnParser(std::string_view bytes, const SafetensorsHeader& header, const Field& field, int64_t num_documents,
               const StopSignal* stop)
      : bytes_(bytes), header_(header), field_(field), stop_(stop) {
    column_.kind = field.kind;
    column_.num_documents = num_documents;
  }

  absl::StatusOr<FieldColumn> Parse() {
    absl::Status status = HasTerms(field_.kind) ? ParseTerms() : ParsePresent();
    if (!status.ok()) return status;
    switch (field_.kind) {
      case FieldKind::kKeyword:
        status = ParseKeyword();
        break;
      case FieldKind::kKeywords:
        status = ParseKeywords();
        break;
      case FieldKind::kInteger:
      case FieldKind::kTime:
        status = ParseIntegers();
        break;
      case FieldKind::kNumber:
        status = ParseNumbers();
        break;
      case FieldKind::kBoolean:
        status = ParseBooleans();
        break;
    }
    if (!status.ok()) return status;
    return std::move(column_);
  }

 private:
  // Finds the one-dimensional tensor FIELD.`part`. It must have `size` elements; if `size` is negative, any number.
  absl::StatusOr<const SafetensorsTensor*> Tensor(std::string_view part, std::string_view dtype, int64_t size) const {
    const std::string name = TensorName(field_, part);
    const SafetensorsTensor* const tensor = header_.Find(name);
    if (tensor == nullptr) return Invalid("tensor \"", name, "\" is missing");
    if (tensor->dtype != dtype) return Invalid(name, ": dtype ", Quote(tensor->dtype), ", expected ", dtype);
    if (tensor->shape.size() != 1 || (size >= 0 && tensor->shape[0] != size)) {
      return Invalid(name, ": shape [", absl::StrJoin(tensor->shape, ", "), "], expected [",
                     size >= 0 ? Cat(size) : std::string("any"), "]");
    }
    return tensor;
  }
  const uint8_t* At(const SafetensorsTensor& tensor) const {
    return reinterpret_cast<const uint8_t*>(bytes_.data()) + tensor.begin;
  }
  template <typename... What>
  absl::Status Wrong(std::string_view part, int64_t idx, const What&... what) const {
    return Invalid(TensorName(field_, part), "[", idx, "]: ", what...);
  }
  absl::Status Stopped(int64_t idx) const {
    return idx % kStopBlockDocuments == 0 ? StopStatus(stop_) : absl::OkStatus();
  }

  // Reads offsets. The first must be 0, the last `end`, and none may be below the one before it.
  absl::StatusOr<Int64Array> Offsets(std::string_view part, int64_t size, int64_t end) const {
    const absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(part, "I64", size);
    if (!tensor.ok()) return tensor.status();
    const int64_t count = (*tensor)->shape[0];
    if (count < 1) return Invalid(TensorName(field_, part), ": has no element, 0 is the first one");
    Int64Array offsets(At(**tensor), count);
    if (offsets[0] != 0) return Wrong(part, 0, offsets[0], ", expected 0");
    for (int64_t idx = 1; idx < count; ++idx) {
      if (absl::Status status = Stopped(idx); !status.ok()) return status;
      if (offsets[idx] < offsets[idx - 1] || offsets[idx] > end) {
        return Wrong(part, idx, offsets[idx], " is not in ", offsets[idx - 1], " .. ", end);
      }
    }
    if (offsets[count - 1] != end) return Wrong(part, count - 1, offsets[count - 1], ", expected ", end);
    return offsets;
  }

  absl::Status ParseTerms() {
    const absl::StatusOr<const SafetensorsTensor*> term_bytes = Tensor(kTermBytes, "U8", -1);
    if (!term_bytes.ok()) return term_bytes.status();
    const int64_t num_bytes = (*term_bytes)->num_bytes();
    column_.term_bytes = bytes_.substr(static_cast<size_t>((*term_bytes)->begin), static_cast<size_t>(num_bytes));
    absl::StatusOr<Int64Array> offsets = Offsets(kTermOffsets, -1, num_bytes);
    if (!offsets.ok()) return offsets.status();
    column_.term_offsets = *std::move(offsets);
    column_.num_terms = header_.Find(TensorName(field_, kTermOffsets))->shape[0] - 1;
    if (column_.num_terms > kMaxTerms)
      return Invalid(TensorName(field_, kTermOffsets), ": more than ", kMaxTerms, " terms");
    for (int64_t idx = 0; idx < column_.num_terms; ++idx) {
      if (absl::Status status = Stopped(idx); !status.ok()) return status;
      const std::string_view term = column_.term(idx);
      if (term.size() > kMaxKeywordBytes)
        return Wrong(kTermOffsets, idx, term.size(), " bytes, the limit is ", kMaxKeywordBytes);
      if (!IsUtf8(term)) return Wrong(kTermBytes, idx, "the term is not UTF-8");
      if (idx > 0 && term <= column_.term(idx - 1)) return Wrong(kTermBytes, idx, "terms do not ascend: ", Quote(term));
    }
    return absl::OkStatus();
  }

  absl::Status ParseKeyword() {
    const absl::StatusOr<const SafetensorsTensor*> values = Tensor(kFieldValues, "U32", column_.num_documents);
    if (!values.ok()) return values.status();
    column_.terms = FileArray<uint32_t>(At(**values), column_.num_documents);
    for (int64_t idx = 0; idx < column_.num_documents; ++idx) {
      if (absl::Status status = Stopped(idx); !status.ok()) return status;
      const uint32_t term = column_.terms[idx];
      if (term > column_.num_terms)
        return Wrong(kFieldValues, idx, term, ", but there are ", column_.num_terms, " terms");
      column_.num_present += term != 0;
    }
    return absl::OkStatus();
  }

  absl::Status ParseKeywords() {
    const absl::StatusOr<const SafetensorsTensor*> values = Tensor(kFieldValues, "U32", -1);
    if (!values.ok()) return values.status();
    const int64_t num_values = (*values)->shape[0];
    column_.terms = FileArray<uint32_t>(At(**values), num_values);
    absl::StatusOr<Int64Array> offsets = Offsets(kListOffsets, column_.num_documents + 1, num_values);
    if (!offsets.ok()) return offsets.status();
    column_.list_offsets = *std::move(offsets);
    for (int64_t document = 0; document < column_.num_documents; ++document) {
      if (absl::Status status = Stopped(document); !status.ok()) return status;
      const int64_t begin = column_.list_offsets[document];
      const int64_t end = column_.list_offsets[document + 1];
      if (end - begin > static_cast<int64_t>(kMaxKeywordsPerDocument)) {
        return Wrong(kListOffsets, document, end - begin, " keywords, the limit is ", kMaxKeywordsPerDocument);
      }
      column_.num_present += end > begin;
      for (int64_t idx = begin; idx < end; ++idx) {
        const uint32_t term = column_.terms[idx];
        if (term >= column_.num_terms)
          return Wrong(kFieldValues, idx, term, ", but there are ", column_.num_terms, " terms");
        if (idx > begin && term <= column_.terms[idx - 1])
          return Wrong(kFieldValues, idx, "terms of a document do not ascend");
      }
    }
    return absl::OkStatus();
  }

  // Finds an array with one bit per document. Unused bits of its last byte must be 0.
  absl::StatusOr<const uint8_t*> Bits(std::string_view part) const {
    const int64_t num_bytes = BitBytes(column_.num_documents);
    const absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(part, "U8", num_bytes);
    if (!tensor.ok()) return tensor.status();
    const uint8_t* const bits = At(**tensor);
    if (column_.num_documents % 8 != 0 && bits[num_bytes - 1] >> (column_.num_documents % 8) != 0) {
      return Wrong(part, num_bytes - 1, "has bits of more than ", column_.num_documents, " documents");
    }
    return bits;
  }

  absl::Status ParsePresent() {
    const absl::StatusOr<const uint8_t*> present = Bits(kFieldPresent);
    if (!present.ok()) return present.status();
    column_.present = *present;
    for (int64_t idx = 0; idx < BitBytes(column_.num_documents); ++idx) {
      column_.num_present += __builtin_popcount(column_.present[idx]);
    }
    return absl::OkStatus();
  }

  absl::Status ParseIntegers() {
    const absl::StatusOr<const SafetensorsTensor*> values = Tensor(kFieldValues, "I64", column_.num_documents);
    if (!values.ok()) return values.status();
    column_.integers = Int64Array(At(**values), column_.num_documents);
    const bool is_time = field_.kind == FieldKind::kTime;
    for (int64_t idx = 0; idx < column_.num_documents; ++idx) {
      if (absl::Status status = Stopped(idx); !status.ok()) return status;
      const int64_t value = column_.integers[idx];
      if (value != 0 && !Bit(column_.present, idx))
        return Wrong(kFieldValues, idx, value, ", but the document has no value");
      if (is_time && (value < kMinTimeMicros || value > kMaxTimeMicros)) {
        return Wrong(kFieldValues, idx, value, " is not in ", kMinTimeMicros, " .. ", kMaxTimeMicros);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseNumbers() {
    const absl::StatusOr<const SafetensorsTensor*> values = Tensor(kFieldValues, "F64", column_.num_documents);
    if (!values.ok()) return values.status();
    column_.numbers = FileArray<double>(At(**values), column_.num_documents);
    for (int64_t idx = 0; idx < column_.num_documents; ++idx) {
      if (absl::Status status = Stopped(idx); !status.ok()) return status;
      const double value = column_.numbers[idx];
      if (!std::isfinite(value)) return Wrong(kFieldValues, idx, value, " is not finite");
      const bool is_zero = value == 0 && !std::signbit(value);
      if (!is_zero && !Bit(column_.present, idx))
        return Wrong(kFieldValues, idx, value, ", but the document has no value");
      if (value == 0 && !is_zero) return Wrong(kFieldValues, idx, "-0, expected 0");
    }
    return absl::OkStatus();
  }

  absl::Status ParseBooleans() {
    const absl::StatusOr<const uint8_t*> bits = Bits(kFieldValues);
    if (!bits.ok()) return bits.status();
    column_.bits = *bits;
    for (int64_t idx = 0; idx < BitBytes(column_.num_documents); ++idx) {
      if ((column_.bits[idx] & ~column_.present[idx]) == 0) continue;
      return Wrong(kFieldValues, idx, "a document is true, but has no value");
    }
    return absl::OkStatus();
  }

  const std::string_view bytes_;
  const SafetensorsHeader& header_;
  const Field& field_;
  const StopSignal* const stop_;
  FieldColumn column_;
};

}  // namespace

bool FieldColumn::has_value(int64_t document) const {
  if (kind == FieldKind::kKeyword) return terms[document] != 0;
  if (kind == FieldKind::kKeywords) return list_offsets[document + 1] > list_offsets[document];
  return Bit(present, document);
}

FieldValue FieldColumn::value(int64_t document) const {
  if (!has_value(document)) return std::monostate();
  switch (kind) {
    case FieldKind::kKeyword:
      return std::string(term(terms[document] - 1));
    case FieldKind::kKeywords: {
      std::vector<std::string> list;
      for (int64_t idx = list_offsets[document]; idx < list_offsets[document + 1]; ++idx) {
        list.emplace_back(term(terms[idx]));
      }
      return list;
    }
    case FieldKind::kInteger:
    case FieldKind::kTime:
      return integers[document];
    case FieldKind::kNumber:
      return numbers[document];
    case FieldKind::kBoolean:
      return Bit(bits, document);
  }
  return std::monostate();
}

absl::StatusOr<std::vector<FieldColumn>> ParseFieldFile(std::string_view bytes, const std::vector<Field>& fields,
                                                        int64_t num_documents, const StopSignal* stop) {
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
  if (!header.ok()) return header.status();
  if (absl::Status status = CheckFormat(*header, kFieldFileFormat, kFieldFileFormatVersion); !status.ok()) {
    return status;
  }
  const std::string declared = FormatFields(fields);
  const std::string_view found = header->FindMetadata(kDeclarationsKey).value_or("");
  if (found != declared) {
    return Invalid("__metadata__.", kDeclarationsKey, ": ", Quote(found), ", expected ", Quote(declared));
  }
  std::vector<FieldColumn> columns;
  for (const Field& field : fields) {
    absl::StatusOr<FieldColumn> column = ColumnParser(bytes, *header, field, num_documents, stop).Parse();
    if (!column.ok()) return column.status();
    columns.push_back(*std::move(column));
  }
  return columns;
}

}  // namespace maxsim::collection
