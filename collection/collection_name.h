// The names that a collection may have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::collection {

inline constexpr size_t kMaxCollectionNameBytes = 128;

// Returns whether `name` is 1 to 128 of A-Z a-z 0-9 . _ - and not only dots: a name can be a folder's.
bool IsCollectionName(std::string_view name);

// Returns what is wrong with a name, as the end of an error that begins with the field; "" if nothing is.
std::string CollectionNameProblem(std::string_view name);

// Returns INVALID_ARGUMENT, with a message that begins "name: ", unless IsCollectionName.
absl::Status CheckCollectionName(std::string_view name);

}  // namespace maxsim::collection
