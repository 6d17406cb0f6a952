// Converts a filter to its canonical form. Only canonical filters are evaluated, and their text is a key for caches.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "collection/field.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// Returns the canonical form of `filter` for a collection that declares `fields` and holds the slots `held`. It matches
// the same documents of that collection. Returns INVALID_ARGUMENT if the filter fails CheckFilter, names a field that
// is not declared, or compares a field with a value that it cannot have.
//
// - Values have the type of their field: int64_t for integer, double for number, bool for boolean, and strings for
//   others. Times are written as FormatTime does. A number without a fraction is accepted for an integer.
// - An "and" has no "and" as a child, an "or" no "or", and a "not" no "not". An "and" or "or" has at least two
//   children.
// - In an "and", the ranges of one field are merged into one range. In an "or", all "equals" and "in" of one field are
//   merged into one "in".
// - The values of an "in" ascend, and none repeats. An "in" with one value becomes an "equals".
// - Children are in the order of their text (FormatFilter), and none repeats.
// - An in_slots whose range has all of `held` becomes Filter::Everything, which matches every document. The "and", "or"
//   and "not" that contain it are then simplified. So Everything, or its negation, which matches nothing, can be the
//   whole result but never a member of an "and" or "or".
//
// So the text of the result is a key for caches. Filters that match the same documents for other reasons may have
// different texts. The canonical form of the result is the result itself, and so is the canonical form of the filter
// that is parsed from its text, unless it has an in_slots, whose text is not parsed.
absl::StatusOr<Filter> CanonicalFilter(const Filter& filter, const std::vector<Field>& fields,
                                       const SlotRange& held = SlotRange());

}  // namespace maxsim::collection
