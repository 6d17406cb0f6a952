// The text form of filters, for command lines and HTTP:
//
//   lang = "en" and year >= 2020 and not (tags in ("draft", "old") or exists(hidden))
//
//   filter     = all { "or" all }
//   all        = one { "and" one }
//   one        = "not" one | "(" filter ")" | "exists" "(" FIELD ")" | FIELD comparison
//   comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | [ "not" ] "in" "(" value { "," value } ")"
//   value      = STRING | NUMBER | "true" | "false"
//
// FIELD is a letter or "_", then letters, digits and "_". STRING and NUMBER are written as in JSON. Keywords such as
// "and" may be in upper case. White space between tokens is ignored.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"

namespace maxsim::collection {

inline constexpr size_t kMaxFilterTextBytes = size_t{1} << 20;

// Parses a filter and checks it (CheckFilter). INVALID_ARGUMENT names the position (the number of the character, from
// 1), what was found and what is expected. Does not check whether the fields exist and the values fit them:
// CanonicalFilter does.
absl::StatusOr<Filter> ParseFilter(std::string_view text);

// Returns the text of a filter that passed CheckFilter. ParseFilter turns it into a filter with the same canonical
// form. (A range with two bounds is printed as two comparisons.)
//
// An in_slots is printed as in_slots(FIRST-LAST), which ParseFilter refuses.
std::string FormatFilter(const Filter& filter);

}  // namespace maxsim::collection
