// The names that a collection may have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::collection {

inline constexpr size_t kMaxCollectionNameBytes = 128;

// Returns whether `name` has 1 to 128 characters of A-Z a-z 0-9 . _ - and is not only dots. Such a name can also be the
// name of a folder.
bool IsCollectionName(std::string_view name);

// Returns the reason why a name is not allowed, without a prefix, or "" if it is allowed.
std::string CollectionNameProblem(std::string_view name);

// Returns INVALID_ARGUMENT, with a message that begins with "name: ", if the name is not allowed.
absl::Status CheckCollectionName(std::string_view name);

}  // namespace maxsim::collection
