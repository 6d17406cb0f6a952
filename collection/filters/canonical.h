// Converts filters to their canonical form, so that equivalent filters often become equal. Filters must be canonical to
// be evaluated, and the text of a canonical filter is the key of caches.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "collection/field.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// Returns the canonical form of `filter` for a collection with the fields `fields` and the slots `held`. Both match the
// same documents of this collection. Returns INVALID_ARGUMENT if the filter fails CheckFilter, names an unknown field,
// or compares a field with a value that the field cannot have.
//
// - Values have the type of their field: int64_t for integer, double for number, bool for boolean, and strings for
//   others. Times are written as FormatTime does. A number without a fraction is accepted for an integer.
// - An "and" has no "and" as a child, an "or" no "or", and a "not" no "not". An "and" or "or" has at least two
//   children.
// - In an "and", the ranges of one field are merged into one range. In an "or", all "equals" and "in" of one field are
//   merged into one "in".
// - The values of an "in" ascend, and none repeats. An "in" with one value becomes an "equals".
// - Children are in the order of their text (FormatFilter), and none repeats.
// - An in_slots whose range contains all of `held` becomes Filter::Everything, which matches every document. An "and"
//   or "or" around it is simplified, so that the result never has Everything or its negation as the child of an "and"
//   or "or".
//
// Filters that match the same documents may still have different canonical forms. The canonical form of the result is
// the result itself.
absl::StatusOr<Filter> CanonicalFilter(const Filter& filter, const std::vector<Field>& fields,
                                       const SlotRange& held = SlotRange());

}  // namespace maxsim::collection
