// The JSON form of filters:
//
//   {"and": [{"field": "lang", "equals": "en"}, {"field": "year", "gte": 2020, "lt": 2026},
//            {"not": {"or": [{"field": "tags", "in": ["draft", "old"]}, {"field": "hidden", "exists": true}]}}]}
//
// An object is one node. "and" and "or" have an array of nodes, and "not" has a node. Every other node names a "field"
// and has either "equals" (a value), "in" (an array of values), "exists" (true), or the bounds of a range: "gt" or
// "gte", "lt" or "lte", or one of each. Values are strings, numbers and booleans.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// Parses a filter and checks it (CheckFilter). INVALID_ARGUMENT names the place, such as "and[1].not: ", what was found
// and what is expected. Does not check whether the fields exist and the values fit them: CanonicalFilter does.
absl::StatusOr<Filter> ParseFilterJson(std::string_view json);

// Returns the JSON of a filter that passed CheckFilter. ParseFilterJson turns it back into an equal filter, but refuses
// an in_slots, which is printed as {"in_slots": "FIRST-LAST"}.
std::string FormatFilterJson(const Filter& filter);

}  // namespace maxsim::collection
