// The text form of filters, which command lines and HTTP share:
//
//   lang = "en" and year >= 2020 and not (tags in ("draft", "old") or exists(hidden))
//
//   filter     = all { "or" all }
//   all        = one { "and" one }
//   one        = "not" one | "(" filter ")" | "exists" "(" FIELD ")" | FIELD comparison
//   comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | [ "not" ] "in" "(" value { "," value } ")"
//   value      = STRING | NUMBER | "true" | "false"
//
// FIELD is a letter or "_", then letters, digits and "_". STRING and NUMBER are those of JSON. Words such as "and" may
// be in upper case. Between tokens there may be white space.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

inline constexpr size_t kMaxFilterTextBytes = size_t{1} << 20;

// Parses a filter and checks it (CheckFilter). INVALID_ARGUMENT: "position 8: found "blue", expected a value: ...",
// where positions are characters, counted from 1. Whether the fields exist and the values suit them is left to
// CanonicalFilter.
absl::StatusOr<Filter> ParseFilter(std::string_view text);

// Returns text that ParseFilter takes. The filter has passed CheckFilter. A range with two bounds becomes two
// comparisons, and what is parsed of the text has the same canonical form.
//
// An in_slots becomes in_slots(FIRST-LAST), which ParseFilter does not take, so that it is no part of what people
// write. No other filter has this text: a "(" never follows a field's name.
std::string FormatFilter(const Filter& filter);

}  // namespace maxsim::collection
