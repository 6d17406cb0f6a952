// Files that hold bearer tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace maxsim {

// Returns the tokens in the file at `path`, which has one token per line. Skips empty lines and lines that begin with
// #. `key` is the configuration key that names the file; every error message has it. Returns NOT_FOUND or
// PERMISSION_DENIED if the file cannot be read, and INVALID_ARGUMENT if it is not a file, has no token, or has a token
// that cannot be sent in a header.
absl::StatusOr<std::vector<std::string>> ReadTokenFile(std::string_view key, const std::string& path);

// A token, and what follows it on its line, after white space: "" or settings that begin with '{'.
struct TokenLine {
  std::string token;
  std::string settings = {};
  int number = 0;  // of the line, counted from 1
};

// Splits `line`, which must have no white space at its ends. Checks neither the token nor the settings. `number` is the
// number of the line.
TokenLine SplitTokenLine(std::string line, int number);

// Reads a file whose tokens may have settings. Errors as ReadTokenFile.
absl::StatusOr<std::vector<TokenLine>> ReadTokenLines(std::string_view key, const std::string& path);

}  // namespace maxsim
