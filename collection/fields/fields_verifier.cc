#include "collection/fields/fields_verifier.h"

#include <optional>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "collection/document_line.h"
#include "collection/fields/field_reader.h"
#include "collection/fields/time_text.h"

namespace maxsim::collection {
namespace {

std::string Describe(FieldKind kind, const FieldValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "no value";
  switch (kind) {
    case FieldKind::kKeyword:
      return Quote(std::get<std::string>(value));
    case FieldKind::kKeywords: {
      const auto& list = std::get<std::vector<std::string>>(value);
      return Cat("a list of ", list.size(), ", the first ", Quote(list.front()));
    }
    case FieldKind::kInteger:
      return Cat(std::get<int64_t>(value));
    case FieldKind::kTime:
      return FormatTime(std::get<int64_t>(value));
    case FieldKind::kNumber:
      return Cat(std::get<double>(value));
    case FieldKind::kBoolean:
      return std::get<bool>(value) ? "true" : "false";
  }
  return "?";
}

// Describes the first field whose stored value differs from `expected`; nullopt if there is none.
std::optional<std::string> Difference(const std::vector<Field>& fields, const std::vector<FieldColumn>& columns,
                                      int64_t document, const std::vector<FieldValue>& expected) {
  for (size_t idx = 0; idx < fields.size(); ++idx) {
    const FieldValue stored = columns[idx].value(document);
    if (stored == expected[idx]) continue;
    const FieldKind kind = fields[idx].kind;
    return Cat("field ", Quote(fields[idx].name), ": ", Describe(kind, stored), " is stored, but the payload has ",
               Describe(kind, expected[idx]));
  }
  return std::nullopt;
}

}  // namespace

WrongFields FindWrongFields(const std::vector<Field>& fields, const std::vector<FieldColumn>& columns,
                            const Shard& shard, size_t max_kept) {
  FieldReader reader(fields);
  WrongFields wrong;
  for (int64_t document = 0; document < shard.documents().num_documents; ++document) {
    const std::string_view payload = shard.payload(document);
    if (!payload.empty() && !CheckPayload(payload).ok()) continue;
    const absl::StatusOr<const std::vector<FieldValue>*> expected = reader.Read(payload);
    const std::optional<std::string> what = expected.ok() ? Difference(fields, columns, document, **expected)
                                                          : std::optional(std::string(expected.status().message()));
    if (!what.has_value()) continue;
    ++wrong.num_documents;
    if (wrong.documents.size() < max_kept) wrong.documents.push_back({document, *what});
  }
  return wrong;
}

}  // namespace maxsim::collection
