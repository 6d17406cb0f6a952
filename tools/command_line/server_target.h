// Parses addresses of maxsimd on command lines.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace maxsim::command_line {

// What --server, or --target, means to gRPC: HOST:PORT, port 7070 where none is given, or one of gRPC's own names
// (dns:, unix:, ...). INVALID_ARGUMENT for another kind of address, such as a URL, and for a port that is none: gRPC
// would connect to another one.
absl::StatusOr<std::string> ServerTarget(const std::string& text);

// Replaces `text` by its ServerTarget, and returns "" or what is wrong with it: for CLI::Validator.
std::string TakeServerTarget(std::string& text);

}  // namespace maxsim::command_line
