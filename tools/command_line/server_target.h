// Parses addresses of maxsimd on command lines.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace maxsim::command_line {

// Turns the value of --server, or --target, into a target for gRPC: HOST:PORT, with port 7070 if none is given, or one
// of gRPC's own names (dns:, unix:, ...). Returns INVALID_ARGUMENT for another kind of address, such as a URL, and for
// an invalid port, because gRPC would connect to a different port.
absl::StatusOr<std::string> ServerTarget(const std::string& text);

// Replaces `text` by its ServerTarget. Returns "", or what is wrong with it. For CLI::Validator.
std::string TakeServerTarget(std::string& text);

}  // namespace maxsim::command_line
