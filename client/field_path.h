// Paths of fields in errors: "queries[3].tokens.dim" is the member `dim` of `tokens` of the fourth of `queries`. All
// functions are pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace maxsim::client {

// Returns whether `path` is `outer`, or a member or an element of it: "tokens.dim" and "tokens[1]" are within "tokens",
// and "tokens2" is not.
bool IsWithin(std::string_view path, std::string_view outer);

// Returns `path`, which must be within `outer`, with `outer` replaced by `replacement`.
std::string Rebased(std::string_view path, std::string_view outer, std::string_view replacement);

// Returns the index that follows `list` in `path`: 3 for "queries[3].tokens" and the list "queries". Returns nullopt if
// there is none.
std::optional<size_t> IndexIn(std::string_view path, std::string_view list);

// Returns `path` with the index that follows `list` replaced by `idx`. `path` must have such an index.
std::string WithIndex(std::string_view path, std::string_view list, size_t idx);

}  // namespace maxsim::client
