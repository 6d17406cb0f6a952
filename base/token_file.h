// Files that hold bearer tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace maxsim {

// Returns the tokens of the file at `path`, one a line; empty lines and those that begin with # hold none. `key` is the
// key of the configuration that names the file, and stands in every error: NOT_FOUND or PERMISSION_DENIED if it
// cannot be read, INVALID_ARGUMENT if it is no file, holds no token, or holds one that no header could carry.
absl::StatusOr<std::vector<std::string>> ReadTokenFile(std::string_view key, const std::string& path);

}  // namespace maxsim
