// The names that a collection may have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::collection {

inline constexpr size_t kMaxCollectionNameBytes = 128;

// Returns whether `name` consists of 1 to 128 of the characters A-Z a-z 0-9 . _ - and not only of dots. So every name
// can be the name of a folder.
bool IsCollectionName(std::string_view name);

// Returns the reason why a name is not allowed, or "". A caller can put the field's name before it to make an error
// message.
std::string CollectionNameProblem(std::string_view name);

// Returns INVALID_ARGUMENT, with a message that begins with "name: ", if the name is not allowed.
absl::Status CheckCollectionName(std::string_view name);

}  // namespace maxsim::collection
