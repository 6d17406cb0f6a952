#include "collection/fields/field_file_maker.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "collection/fields/field_file.h"
#include "collection/formats/safetensors.h"

namespace maxsim::collection {
namespace {

// The alignment of a field file's data. Field files are never memory-mapped, so the data needs no page alignment.
constexpr int64_t kAlignment = 64;

void SetBit(std::vector<uint8_t>& bits, int64_t idx, bool value) {
  const auto byte = static_cast<size_t>(idx / 8);
  if (bits.size() <= byte) bits.resize(byte + 1);
  if (value) bits[byte] = static_cast<uint8_t>(bits[byte] | (1U << (idx % 8)));
}

template <typename T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The parts of a file, one after another.
struct Parts {
  std::vector<SafetensorsTensor> tensors;
  std::string data;

  void Add(const Field& field, std::string_view part, std::string_view dtype, size_t size, std::string_view bytes) {
    tensors.push_back({Cat(field.name, ".", part), std::string(dtype), {static_cast<int64_t>(size)}, 0, 0});
    data.append(bytes);
  }
};

}  // namespace

struct FieldFileMaker::Column {
  // The terms that were added so far, numbered in the order in which they were added.
  absl::flat_hash_map<std::string, uint32_t> numbers_of_terms;
  std::vector<uint32_t> terms;  // keyword: 0 for no value, else 1 + the term's number; keywords: the terms' numbers
  std::vector<int64_t> list_offsets = {0};
  std::vector<int64_t> integers;
  std::vector<double> numbers;
  std::vector<uint8_t> bits;
  std::vector<uint8_t> present;

  uint32_t NumberOf(const std::string& term) {
    return numbers_of_terms.emplace(term, static_cast<uint32_t>(numbers_of_terms.size())).first->second;
  }
  void Add(FieldKind kind, int64_t document, const FieldValue& value);
  void AddTo(Parts& parts, const Field& field, int64_t num_documents) const;
  void AddTermsTo(Parts& parts, const Field& field) const;
};

void FieldFileMaker::Column::Add(FieldKind kind, int64_t document, const FieldValue& value) {
  const bool has_value = !std::holds_alternative<std::monostate>(value);
  switch (kind) {
    case FieldKind::kKeyword:
      terms.push_back(has_value ? 1 + NumberOf(std::get<std::string>(value)) : 0);
      return;
    case FieldKind::kKeywords:
      if (has_value) {
        for (const std::string& term : std::get<std::vector<std::string>>(value)) terms.push_back(NumberOf(term));
      }
      list_offsets.push_back(static_cast<int64_t>(terms.size()));
      return;
    case FieldKind::kInteger:
    case FieldKind::kTime:
      integers.push_back(has_value ? std::get<int64_t>(value) : 0);
      break;
    case FieldKind::kNumber:
      numbers.push_back(has_value ? std::get<double>(value) : 0);
      break;
    case FieldKind::kBoolean:
      SetBit(bits, document, has_value && std::get<bool>(value));
      break;
  }
  SetBit(present, document, has_value);
}

// Adds the terms in ascending order, and the arrays that refer to them.
void FieldFileMaker::Column::AddTermsTo(Parts& parts, const Field& field) const {
  std::vector<const std::pair<const std::string, uint32_t>*> sorted;
  sorted.reserve(numbers_of_terms.size());
  for (const auto& term : numbers_of_terms) sorted.push_back(&term);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  std::vector<uint32_t> sorted_numbers(sorted.size());  // [number when added]: number in ascending order
  std::vector<int64_t> offsets = {0};
  std::string bytes;
  for (size_t idx = 0; idx < sorted.size(); ++idx) {
    sorted_numbers[sorted[idx]->second] = static_cast<uint32_t>(idx);
    bytes += sorted[idx]->first;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  std::vector<uint32_t> values = terms;
  if (field.kind == FieldKind::kKeyword) {
    for (uint32_t& value : values) value = value == 0 ? 0 : 1 + sorted_numbers[value - 1];
  } else {
    for (uint32_t& value : values) value = sorted_numbers[value];
  }
  // Each document's list is still sorted, because its terms were sorted when the list was added.
  parts.Add(field, kTermOffsets, "I64", offsets.size(), BytesOf(offsets));
  if (field.kind == FieldKind::kKeywords) {
    parts.Add(field, kListOffsets, "I64", list_offsets.size(), BytesOf(list_offsets));
  }
  parts.Add(field, kFieldValues, "U32", values.size(), BytesOf(values));
  parts.Add(field, kTermBytes, "U8", bytes.size(), bytes);
}

void FieldFileMaker::Column::AddTo(Parts& parts, const Field& field, int64_t num_documents) const {
  switch (field.kind) {
    case FieldKind::kKeyword:
    case FieldKind::kKeywords:
      AddTermsTo(parts, field);
      return;
    case FieldKind::kInteger:
    case FieldKind::kTime:
      parts.Add(field, kFieldValues, "I64", static_cast<size_t>(num_documents), BytesOf(integers));
      break;
    case FieldKind::kNumber:
      parts.Add(field, kFieldValues, "F64", static_cast<size_t>(num_documents), BytesOf(numbers));
      break;
    case FieldKind::kBoolean:
      parts.Add(field, kFieldValues, "U8", bits.size(), BytesOf(bits));
      break;
  }
  parts.Add(field, kFieldPresent, "U8", present.size(), BytesOf(present));
}

FieldFileMaker::FieldFileMaker(const std::vector<Field>& fields)
    : fields_(fields), reader_(fields), columns_(fields.size()) {}
FieldFileMaker::~FieldFileMaker() = default;

absl::Status FieldFileMaker::Add(std::string_view payload) {
  const absl::StatusOr<const std::vector<FieldValue>*> values = reader_.Read(payload);
  if (!values.ok()) return values.status();
  for (size_t idx = 0; idx < fields_.size(); ++idx) {
    columns_[idx].Add(fields_[idx].kind, num_documents_, (**values)[idx]);
  }
  ++num_documents_;
  return absl::OkStatus();
}

std::string FieldFileMaker::Make() const {
  Parts parts;
  for (size_t idx = 0; idx < fields_.size(); ++idx) columns_[idx].AddTo(parts, fields_[idx], num_documents_);
  return FormatSafetensorsHeader({{"format", std::string(kFieldFileFormat)},
                                  {"format_version", std::string(kFieldFileFormatVersion)},
                                  {std::string(kDeclarationsKey), FormatFields(fields_)}},
                                 parts.tensors, kAlignment) +
         parts.data;
}

}  // namespace maxsim::collection
