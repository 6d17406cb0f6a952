#include "collection/filters/canonical.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "collection/fields/time_text.h"
#include "collection/filters/filter_text.h"

namespace maxsim::collection {
namespace {

// The maximum number of field names that a message lists.
constexpr size_t kMaxListedFields = 16;

std::string ListFields(const std::vector<Field>& fields) {
  if (fields.empty()) return "the collection has no fields";
  const size_t count = std::min(fields.size(), kMaxListedFields);
  const std::string names = absl::StrJoin(fields.begin(), fields.begin() + static_cast<int64_t>(count), ", ",
                                          [](std::string* out, const Field& field) { out->append(field.name); });
  return Cat("the collection has ", names, count < fields.size() ? ", ..." : "");
}

std::string Describe(const FilterValue& value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return Quote(*text);
  if (const auto* const boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* const integer = std::get_if<int64_t>(&value)) return Cat(*integer);
  return Cat(std::get<double>(value));
}

std::string_view Expected(FieldKind kind) {
  switch (kind) {
    case FieldKind::kKeyword:
    case FieldKind::kKeywords:
      return "a string";
    case FieldKind::kInteger:
      return "an integer of 64 bits";
    case FieldKind::kNumber:
      return "a number";
    case FieldKind::kBoolean:
      return "true or false";
    case FieldKind::kTime:
      return "a string with a time of RFC 3339, such as \"2026-01-02T03:04:05Z\"";
  }
  return "?";
}

// Converts a filter's value to the type of a field. Returns nullopt if no value of that type equals it.
std::optional<FilterValue> Convert(FieldKind kind, const FilterValue& value) {
  const auto* const text = std::get_if<std::string>(&value);
  const auto* const integer = std::get_if<int64_t>(&value);
  const auto* const number = std::get_if<double>(&value);
  switch (kind) {
    case FieldKind::kKeyword:
    case FieldKind::kKeywords:
      return text != nullptr ? std::optional(value) : std::nullopt;
    case FieldKind::kBoolean:
      return std::holds_alternative<bool>(value) ? std::optional(value) : std::nullopt;
    case FieldKind::kInteger: {
      if (integer != nullptr) return value;
      // Numbers of 2^63 and above do not fit into int64_t.
      constexpr double kEnd = 9223372036854775808.0;
      if (number == nullptr || std::trunc(*number) != *number || *number < -kEnd || *number >= kEnd)
        return std::nullopt;
      return static_cast<int64_t>(*number);
    }
    case FieldKind::kNumber:
      if (integer != nullptr) return static_cast<double>(*integer);
      return number != nullptr ? std::optional<FilterValue>(*number + 0.0) : std::nullopt;  // 0 for -0
    case FieldKind::kTime: {
      const std::optional<int64_t> time = text != nullptr ? ParseTime(*text) : std::nullopt;
      return time.has_value() ? std::optional<FilterValue>(FormatTime(*time)) : std::nullopt;
    }
  }
  return std::nullopt;
}

// Compares two canonical values of the same field.
bool IsLess(FieldKind kind, const FilterValue& a, const FilterValue& b) {
  if (kind == FieldKind::kTime) return *ParseTime(std::get<std::string>(a)) < *ParseTime(std::get<std::string>(b));
  return a < b;  // of one type
}

class Canonizer {
 public:
  Canonizer(const std::vector<Field>& fields, const SlotRange& held) : fields_(fields), held_(held) {}

  absl::StatusOr<Filter> Make(const Filter& filter) const {
    switch (filter.kind) {
      case Filter::Kind::kAnd:
      case Filter::Kind::kOr:
        return MakeList(filter);
      case Filter::Kind::kNot: {
        absl::StatusOr<Filter> child = Make(filter.children.front());
        if (!child.ok()) return child;
        if (child->kind != Filter::Kind::kNot) return Filter::Not(*std::move(child));
        Filter grandchild = std::move(child->children.front());
        return grandchild;
      }
      case Filter::Kind::kEquals:
      case Filter::Kind::kIn:
      case Filter::Kind::kRange:
      case Filter::Kind::kExists:
        return MakeComparison(filter);
      case Filter::Kind::kInSlots:
        return filter.slots.contains(held_) ? Filter::Everything() : filter;
    }
    return absl::InternalError("unknown kind of filter");
  }

 private:
  static bool IsNothing(const Filter& filter) {
    return filter.kind == Filter::Kind::kNot && filter.children.front().is_everything();
  }

  absl::StatusOr<Filter> MakeComparison(const Filter& filter) const {
    const Field* const field = FindField(fields_, filter.field);
    if (field == nullptr) return Invalid("field ", Quote(filter.field), " is not declared; ", ListFields(fields_));
    const bool has_order =
        field->kind == FieldKind::kInteger || field->kind == FieldKind::kNumber || field->kind == FieldKind::kTime;
    if (filter.kind == Filter::Kind::kRange && !has_order) {
      return Invalid("field ", Quote(field->name), " is of kind ", Name(field->kind),
                     "; only integer, number and time have ranges (<, <=, >, >=)");
    }
    Filter made = filter;
    for (FilterValue& value : made.values) {
      if (absl::Status status = ConvertIn(*field, value); !status.ok()) return status;
    }
    for (std::optional<FilterBound>* const bound : {&made.low, &made.high}) {
      if (!bound->has_value()) continue;
      if (absl::Status status = ConvertIn(*field, (*bound)->value); !status.ok()) return status;
    }
    SortValues(field->kind, made);
    return made;
  }

  static absl::Status ConvertIn(const Field& field, FilterValue& value) {
    std::optional<FilterValue> converted = Convert(field.kind, value);
    if (!converted.has_value()) {
      return Invalid("field ", Quote(field.name), " is of kind ", Name(field.kind), ": the value is ", Describe(value),
                     "; must be ", Expected(field.kind));
    }
    value = *std::move(converted);
    return absl::OkStatus();
  }

  // Sorts the values of an "in" and removes duplicates. Turns an "in" with one value into an "equals".
  static void SortValues(FieldKind kind, Filter& filter) {
    if (filter.kind != Filter::Kind::kIn) return;
    std::sort(filter.values.begin(), filter.values.end(),
              [&](const FilterValue& a, const FilterValue& b) { return IsLess(kind, a, b); });
    filter.values.erase(std::unique(filter.values.begin(), filter.values.end()), filter.values.end());
    if (filter.values.size() == 1) filter.kind = Filter::Kind::kEquals;
  }

  absl::StatusOr<Filter> MakeList(const Filter& filter) const {
    const bool is_and = filter.kind == Filter::Kind::kAnd;
    std::vector<Filter> children;
    bool is_decided = false;  // a child decides whether the list matches, for every document
    for (const Filter& child : filter.children) {
      absl::StatusOr<Filter> made = Make(child);
      if (!made.ok()) return made;
      if (made->is_everything() || IsNothing(*made)) {
        is_decided |= made->is_everything() != is_and;
        continue;
      }
      if (made->kind != filter.kind) {
        Add(filter.kind, *std::move(made), children);
        continue;
      }
      for (Filter& grandchild : made->children) Add(filter.kind, std::move(grandchild), children);
    }
    if (is_decided || children.empty()) {
      const bool matches = is_decided ? !is_and : is_and;
      return matches ? Filter::Everything() : Filter::Not(Filter::Everything());
    }
    std::vector<std::pair<std::string, Filter>> sorted;
    for (Filter& child : children) {
      if (const Field* const field = FindField(fields_, child.field)) SortValues(field->kind, child);
      std::string text = FormatFilter(child);
      sorted.emplace_back(std::move(text), std::move(child));
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    Filter made{.kind = filter.kind};
    for (size_t idx = 0; idx < sorted.size(); ++idx) {
      if (idx == 0 || sorted[idx].first != sorted[idx - 1].first)
        made.children.push_back(std::move(sorted[idx].second));
    }
    if (made.children.size() > 1) return made;
    Filter only = std::move(made.children.front());
    return only;
  }

  // Adds a child to a list, or merges it with one of the list's children.
  void Add(Filter::Kind list, Filter child, std::vector<Filter>& children) const {
    const bool is_range = list == Filter::Kind::kAnd && child.kind == Filter::Kind::kRange;
    const auto names_values = [](const Filter& one) {
      return one.kind == Filter::Kind::kEquals || one.kind == Filter::Kind::kIn;
    };
    const bool is_choice = list == Filter::Kind::kOr && names_values(child);
    for (Filter& other : children) {
      if (other.field != child.field) continue;
      if (is_range && other.kind == Filter::Kind::kRange) return Narrow(child, other);
      if (!is_choice || !names_values(other)) continue;
      other.kind = Filter::Kind::kIn;
      other.values.insert(other.values.end(), child.values.begin(), child.values.end());
      return;
    }
    children.push_back(std::move(child));
  }

  // Replaces `range` by its intersection with `by`. Both must be ranges of the same field.
  void Narrow(const Filter& by, Filter& range) const {
    const FieldKind kind = FindField(fields_, range.field)->kind;
    // If two bounds have the same value, the exclusive bound is narrower.
    const auto is_narrower = [&](const FilterBound& one, const FilterBound& other, bool is_low) {
      if (one.value == other.value) return !one.inclusive;
      return is_low ? IsLess(kind, other.value, one.value) : IsLess(kind, one.value, other.value);
    };
    if (by.low.has_value() && (!range.low.has_value() || is_narrower(*by.low, *range.low, true))) range.low = by.low;
    if (by.high.has_value() && (!range.high.has_value() || is_narrower(*by.high, *range.high, false))) {
      range.high = by.high;
    }
  }

  const std::vector<Field>& fields_;
  const SlotRange held_;
};

}  // namespace

absl::StatusOr<Filter> CanonicalFilter(const Filter& filter, const std::vector<Field>& fields, const SlotRange& held) {
  if (absl::Status status = CheckFilter(filter); !status.ok()) return status;
  return Canonizer(fields, held).Make(filter);
}

}  // namespace maxsim::collection
