// A second, simple implementation of filters: matches one payload by its JSON. Tests compare its results with those of
// the bitmaps that the server uses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collection/field.h"
#include "collection/fields/time_text.h"
#include "collection/filters/filter.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/random_filters.h"

namespace maxsim::collection {

// Represents a document with the payload `payload`, whose id hashes to `slot`. Its fields must be those of
// RandomFilters.
class FilterMeaning {
 public:
  explicit FilterMeaning(const std::string& payload, int32_t slot = 0)
      : payload_(payload.empty() ? nlohmann::json::object() : nlohmann::json::parse(payload)), slot_(slot) {}

  bool Matches(const Filter& filter) const {
    const auto matches = [this](const Filter& child) { return Matches(child); };
    switch (filter.kind) {
      case Filter::Kind::kAnd:
        return std::all_of(filter.children.begin(), filter.children.end(), matches);
      case Filter::Kind::kOr:
        return std::any_of(filter.children.begin(), filter.children.end(), matches);
      case Filter::Kind::kNot:
        return !Matches(filter.children.front());
      case Filter::Kind::kInSlots:
        return filter.slots.first <= slot_ && slot_ < filter.slots.end;
      default:
        break;
    }
    const Field& field = *FindField(RandomFilters::fields(), filter.field);
    std::vector<nlohmann::json> values = ValuesOf(field);
    return std::any_of(values.begin(), values.end(), [&](const nlohmann::json& value) {
      if (filter.kind == Filter::Kind::kExists) return true;
      if (filter.kind == Filter::Kind::kRange) return InRange(field.kind, value, filter);
      return std::any_of(filter.values.begin(), filter.values.end(),
                         [&](const FilterValue& wanted) { return Compare(field.kind, value, wanted) == 0; });
    });
  }

  // Returns the document's value of a field of kind keyword.
  std::optional<std::string> Keyword(const std::string& field) const {
    const std::vector<nlohmann::json> values = ValuesOf(*FindField(RandomFilters::fields(), field));
    if (values.empty()) return std::nullopt;
    return values.front().get<std::string>();
  }

  // Returns the document's values of a field: none if the field is missing or null, the elements of a list, or one
  // value.
  std::vector<nlohmann::json> ValuesOf(const Field& field) const {
    const nlohmann::json* value = &payload_;
    for (const std::string_view key : SplitFieldPath(field.path)) {
      const auto found = value->find(std::string(key));
      if (found == value->end() || found->is_null()) return {};
      value = &*found;
    }
    if (field.kind != FieldKind::kKeywords) return {*value};
    return {value->begin(), value->end()};
  }

 private:
  static int Sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }
  static int Compare(FieldKind kind, const nlohmann::json& value, const FilterValue& wanted) {
    switch (kind) {
      case FieldKind::kKeyword:
      case FieldKind::kKeywords:
        return value.get<std::string>().compare(std::get<std::string>(wanted));
      case FieldKind::kBoolean:
        return Sign(value.get<bool>(), std::get<bool>(wanted));
      case FieldKind::kTime:
        return Sign(*ParseTime(value.get<std::string>()), *ParseTime(std::get<std::string>(wanted)));
      case FieldKind::kInteger:
        return Sign(value.get<int64_t>(), std::holds_alternative<int64_t>(wanted)
                                              ? std::get<int64_t>(wanted)
                                              : static_cast<int64_t>(std::get<double>(wanted)));
      case FieldKind::kNumber:
        return Sign(value.get<double>(), std::holds_alternative<double>(wanted)
                                             ? std::get<double>(wanted)
                                             : static_cast<double>(std::get<int64_t>(wanted)));
    }
    return 1;
  }
  static bool InRange(FieldKind kind, const nlohmann::json& value, const Filter& filter) {
    if (filter.low.has_value() && Compare(kind, value, filter.low->value) < (filter.low->inclusive ? 0 : 1))
      return false;
    return !filter.high.has_value() || Compare(kind, value, filter.high->value) <= (filter.high->inclusive ? 0 : -1);
  }

  const nlohmann::json payload_;
  const int32_t slot_;
};

}  // namespace maxsim::collection
