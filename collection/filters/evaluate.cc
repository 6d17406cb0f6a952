#include "collection/filters/evaluate.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/text.h"
#include "collection/fields/time_text.h"

namespace maxsim::collection {
namespace {

// If at least one in kSparseShare documents matches, setting bits in a mask is faster than sorting ordinals.
constexpr size_t kSparseShare = 64;

// Returns a canonical filter's value in the type of the index. Times become microseconds.
template <typename T>
T ValueOf(FieldKind kind, const FilterValue& value) {
  if (kind == FieldKind::kTime) return static_cast<T>(*ParseTime(std::get<std::string>(value)));
  return std::get<T>(value);
}

template <typename T>
typename SortedValues<T>::Places FindRange(const FieldIndex& field, const SortedValues<T>& values,
                                           const std::optional<FilterBound>& low,
                                           const std::optional<FilterBound>& high) {
  const auto bound = [&](const std::optional<FilterBound>& given) {
    std::optional<typename SortedValues<T>::Bound> made;
    if (given.has_value()) made = {ValueOf<T>(field.kind(), given->value), given->inclusive};
    return made;
  };
  return values.InRange(bound(low), bound(high));
}

// Evaluates an "equals", "in" or "range" of a field that is indexed by sorted values.
template <typename T>
OrdinalBitmap EvaluateSorted(const Filter& filter, const FieldIndex& field, const SortedValues<T>& values,
                             int64_t num_documents) {
  std::vector<typename SortedValues<T>::Places> ranges;
  if (filter.kind == Filter::Kind::kRange) ranges.push_back(FindRange(field, values, filter.low, filter.high));
  for (const FilterValue& value : filter.values) {
    const FilterBound bound{value, true};
    ranges.push_back(FindRange(field, values, bound, bound));
  }
  size_t num_found = 0;
  for (const auto& places : ranges) num_found += places.size();
  if (num_found < static_cast<size_t>(num_documents) / kSparseShare) {
    std::vector<uint32_t> ordinals;
    ordinals.reserve(num_found);
    for (const auto& places : ranges) {
      const absl::Span<const uint32_t> found = values.Ordinals(places);
      ordinals.insert(ordinals.end(), found.begin(), found.end());
    }
    std::sort(ordinals.begin(), ordinals.end());
    return OrdinalBitmap::FromSorted(ordinals);
  }
  std::vector<uint64_t> mask((static_cast<size_t>(num_documents) + 63) / 64);
  for (const auto& places : ranges) values.AddTo(places, absl::MakeSpan(mask));
  return OrdinalBitmap::FromMask(mask);
}

OrdinalBitmap EvaluateTerms(const Filter& filter, const FieldIndex& field) {
  std::vector<std::string_view> terms;
  for (const FilterValue& value : filter.values) terms.emplace_back(std::get<std::string>(value));
  OrdinalBitmap set;
  field.terms().AddTo(terms, set);
  return set;
}

OrdinalBitmap EvaluateBoolean(const Filter& filter, const FieldIndex& field) {
  OrdinalBitmap set;
  for (const FilterValue& value : filter.values) {
    OrdinalBitmap of_value = std::get<bool>(value) ? field.is_true().Clone() : field.present().Clone();
    if (!std::get<bool>(value)) of_value.Subtract(field.is_true());
    set.UniteWith(of_value);
  }
  return set;
}

absl::StatusOr<OrdinalBitmap> EvaluateComparison(const Filter& filter, const ShardIndex& index,
                                                 const StopCheck& check) {
  if (check != nullptr) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  const FieldIndex* const field = index.Find(filter.field);
  if (field == nullptr) return Invalid("field ", Quote(filter.field), " is not declared");
  if (filter.kind == Filter::Kind::kExists) return field->present().Clone();
  switch (field->kind()) {
    case FieldKind::kKeyword:
    case FieldKind::kKeywords:
      return EvaluateTerms(filter, *field);
    case FieldKind::kBoolean:
      return EvaluateBoolean(filter, *field);
    case FieldKind::kInteger:
    case FieldKind::kTime:
      return EvaluateSorted(filter, *field, field->integers(), index.num_documents());
    case FieldKind::kNumber:
      return EvaluateSorted(filter, *field, field->numbers(), index.num_documents());
  }
  return absl::InternalError("unknown kind of field");
}

absl::StatusOr<OrdinalBitmap> EvaluateSlots(const Filter& filter, const ShardIndex& index, const StopCheck& check,
                                            const FindInSlots& in_slots) {
  if (filter.is_everything()) return OrdinalBitmap::All(index.num_documents());
  if (in_slots == nullptr) return absl::InternalError("the caller cannot find documents by their slots");
  if (check != nullptr) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  return in_slots(filter.slots);
}

// Intersects the children that are not negated, or starts with all documents if there are none. Then subtracts the
// documents of the negated children.
absl::StatusOr<OrdinalBitmap> EvaluateAnd(const Filter& filter, const ShardIndex& index, const StopCheck& check,
                                          const FindInSlots& in_slots) {
  std::optional<OrdinalBitmap> set;
  for (const Filter& child : filter.children) {
    if (child.kind == Filter::Kind::kNot) continue;
    absl::StatusOr<OrdinalBitmap> of_child = EvaluateFilter(child, index, check, in_slots);
    if (!of_child.ok()) return of_child;
    if (set.has_value()) {
      set->IntersectWith(*of_child);
    } else {
      set = *std::move(of_child);
    }
  }
  if (!set.has_value()) set = OrdinalBitmap::All(index.num_documents());
  for (const Filter& child : filter.children) {
    if (child.kind != Filter::Kind::kNot) continue;
    const absl::StatusOr<OrdinalBitmap> negated = EvaluateFilter(child.children.front(), index, check, in_slots);
    if (!negated.ok()) return negated.status();
    set->Subtract(*negated);
  }
  return *std::move(set);
}

}  // namespace

absl::StatusOr<OrdinalBitmap> EvaluateFilter(const Filter& filter, const ShardIndex& index, const StopCheck& check,
                                             const FindInSlots& in_slots) {
  switch (filter.kind) {
    case Filter::Kind::kAnd:
      return EvaluateAnd(filter, index, check, in_slots);
    case Filter::Kind::kOr: {
      OrdinalBitmap set;
      for (const Filter& child : filter.children) {
        const absl::StatusOr<OrdinalBitmap> of_child = EvaluateFilter(child, index, check, in_slots);
        if (!of_child.ok()) return of_child.status();
        set.UniteWith(*of_child);
      }
      return set;
    }
    case Filter::Kind::kNot: {
      absl::StatusOr<OrdinalBitmap> set = EvaluateFilter(filter.children.front(), index, check, in_slots);
      if (set.ok()) set->Complement(index.num_documents());
      return set;
    }
    case Filter::Kind::kEquals:
    case Filter::Kind::kIn:
    case Filter::Kind::kRange:
    case Filter::Kind::kExists:
      return EvaluateComparison(filter, index, check);
    case Filter::Kind::kInSlots:
      return EvaluateSlots(filter, index, check, in_slots);
  }
  return absl::InternalError("unknown kind of filter");
}

}  // namespace maxsim::collection
