// The fields of a collection: values in the documents' payloads that requests can filter by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::collection {

enum class FieldKind : uint8_t {
  kKeyword,   // a string
  kKeywords,  // a list of strings
  kInteger,   // an integer of 64 bits
  kNumber,    // any number, as FP64
  kBoolean,
  kTime,  // a string with a date and time of RFC 3339
};

std::string_view Name(FieldKind kind);  // "keyword", "keywords", ...
std::optional<FieldKind> FieldKindFromName(std::string_view name);

// Limits of fields. Names are short, because error messages quote them; the other limits bound the cost of a document.
inline constexpr size_t kMaxFields = 64;
inline constexpr size_t kMaxFieldNameBytes = 64;
inline constexpr size_t kMaxFieldPathBytes = 256;
inline constexpr size_t kMaxKeywordBytes = 512;  // like ids
inline constexpr size_t kMaxKeywordsPerDocument = 1024;

struct Field {
  std::string name;  // a letter or "_", then letters, digits and "_"; not a reserved word (IsFilterWord)
  FieldKind kind = FieldKind::kKeyword;
  // The path of the value in the payload: keys joined by dots. "meta.lang" is the member "lang" of the member "meta".
  std::string path;

  friend bool operator==(const Field&, const Field&) = default;
};

// Returns true for reserved words of the filter grammar, in upper or lower case: and, or, not, in, exists, true, false.
bool IsFilterWord(std::string_view word);

// Returns INVALID_ARGUMENT if the name is not allowed for a field.
absl::Status CheckFieldName(std::string_view name);

// Returns the field of that name, or null.
const Field* FindField(const std::vector<Field>& fields, std::string_view name);

// Splits a path at its dots.
std::vector<std::string_view> SplitFieldPath(std::string_view path);

// Checks that the fields may be declared together: names and paths are well formed, no name repeats, and no path leads
// into the value of another field. INVALID_ARGUMENT names the field, the value and the limit.
absl::Status CheckFields(const std::vector<Field>& fields);

// Parses "NAME:KIND=PATH,NAME:KIND,...". Without "=PATH", the path is the name. "" gives an empty list. Returns
// INVALID_ARGUMENT for malformed text and for fields that CheckFields refuses.
absl::StatusOr<std::vector<Field>> ParseFields(std::string_view text);

// Returns the text that ParseFields takes.
std::string FormatFields(const std::vector<Field>& fields);

}  // namespace maxsim::collection
