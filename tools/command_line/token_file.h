// The bearer token that a command line sends.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace maxsim::command_line {

// Returns the first token of a file in the format of the server's auth.tokens_file: one per line, `#` begins a comment
// line. Errors name the path and `flag`, the command-line flag that had the path.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path, const std::string& flag = "--token-file");

}  // namespace maxsim::command_line
