// Converts a filter to its canonical form. Only canonical filters are evaluated, and their text is a key for caches.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "collection/field.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// Returns a filter that matches the same documents. INVALID_ARGUMENT: the filter fails CheckFilter, names a field that
// is not declared, or compares one with a value that it cannot have.
//
// - Values have the type of their field: int64_t of integer, double of number, bool of boolean, and strings of others.
//   Times are written as FormatTime does. A number without a fraction is accepted for an integer.
// - No "and" is a child of an "and", no "or" of an "or", no "not" of a "not", and none of the first two has one child.
// - The ranges of one field in an "and" are one range. What an "or" has of equals and in of one field is one in.
// - The values of an in ascend, and none repeats; one value is an equals.
// - Children are in the order of their text (FormatFilter), and none repeats.
//
// So the text of the result is a key for caches. Filters that match the same documents for other reasons may differ in
// it. The canonical form of the result, and of what is parsed of its text, is the result.
absl::StatusOr<Filter> CanonicalFilter(const Filter& filter, const std::vector<Field>& fields);

}  // namespace maxsim::collection
