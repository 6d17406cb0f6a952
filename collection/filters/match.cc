#include "collection/filters/match.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "collection/fields/time_text.h"

namespace maxsim::collection {
namespace {

// Returns a canonical filter's value in the type that documents' values have. A time becomes microseconds.
FieldValue AsFieldValue(FieldKind kind, const FilterValue& value) {
  if (kind == FieldKind::kTime) return ParseTime(std::get<std::string>(value)).value_or(kMinTimeMicros - 1);
  return std::visit([](const auto& of_filter) { return FieldValue(of_filter); }, value);
}

bool HasValue(const FieldValue& of_document, const FieldValue& wanted) {
  const auto* const list = std::get_if<std::vector<std::string>>(&of_document);
  if (list == nullptr) return of_document == wanted;
  return std::binary_search(list->begin(), list->end(), std::get<std::string>(wanted));
}

// Comparing FieldValues with < works, because all values of a field have the same alternative of the variant.
bool IsInRange(FieldKind kind, const FieldValue& value, const std::optional<FilterBound>& low,
               const std::optional<FilterBound>& high) {
  if (low.has_value()) {
    const FieldValue bound = AsFieldValue(kind, low->value);
    if (value < bound || (value == bound && !low->inclusive)) return false;
  }
  if (high.has_value()) {
    const FieldValue bound = AsFieldValue(kind, high->value);
    if (bound < value || (value == bound && !high->inclusive)) return false;
  }
  return true;
}

}  // namespace

bool MatchesFilter(const Filter& filter, const std::vector<Field>& fields, const std::vector<FieldValue>& values,
                   int32_t slot) {
  const auto matches = [&](const Filter& child) { return MatchesFilter(child, fields, values, slot); };
  switch (filter.kind) {
    case Filter::Kind::kAnd:
      return std::all_of(filter.children.begin(), filter.children.end(), matches);
    case Filter::Kind::kOr:
      return std::any_of(filter.children.begin(), filter.children.end(), matches);
    case Filter::Kind::kNot:
      return !matches(filter.children.front());
    case Filter::Kind::kInSlots:
      return filter.slots.contains(slot);
    case Filter::Kind::kEquals:
    case Filter::Kind::kIn:
    case Filter::Kind::kRange:
    case Filter::Kind::kExists:
      break;
  }
  const Field* const field = FindField(fields, filter.field);
  if (field == nullptr) return false;
  const FieldValue& value = values[static_cast<size_t>(field - fields.data())];
  if (std::holds_alternative<std::monostate>(value)) return false;
  if (filter.kind == Filter::Kind::kExists) return true;
  if (filter.kind == Filter::Kind::kRange) return IsInRange(field->kind, value, filter.low, filter.high);
  return std::any_of(filter.values.begin(), filter.values.end(),
                     [&](const FilterValue& wanted) { return HasValue(value, AsFieldValue(field->kind, wanted)); });
}

}  // namespace maxsim::collection
