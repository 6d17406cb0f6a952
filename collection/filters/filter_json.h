// The JSON form of filters:
//
//   {"and": [{"field": "lang", "equals": "en"}, {"field": "year", "gte": 2020, "lt": 2026},
//            {"not": {"or": [{"field": "tags", "in": ["draft", "old"]}, {"field": "hidden", "exists": true}]}}]}
//
// An object is one node: "and" and "or" have an array of nodes, "not" has a node, and all others name a "field" and one
// of "equals", "in" (an array of values), "exists" (true), and bounds of a range: "gt" or "gte", "lt" or "lte". Values
// are strings, numbers and booleans.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

// Parses a filter and checks it (CheckFilter). INVALID_ARGUMENT names the place, as in "and[1].not: ", what was found
// and what is expected. Whether the fields exist and the values suit them is left to CanonicalFilter.
absl::StatusOr<Filter> ParseFilterJson(std::string_view json);

// Returns the JSON of a filter that passed CheckFilter. What is parsed of it equals the filter. An in_slots becomes
// {"in_slots": "FIRST-LAST"}, which ParseFilterJson does not take.
std::string FormatFilterJson(const Filter& filter);

}  // namespace maxsim::collection
