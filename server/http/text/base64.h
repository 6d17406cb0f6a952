// Base64 of any length, decoded so that it can be stopped.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/stop.h"

namespace maxsim::http {

// Appends to `bytes` what `text` encodes, as absl::Base64Unescape reads it: white space anywhere, padding or none.
// False when it is not base64. `stop`, which may be null, is asked every megabyte, and its error returned.
absl::StatusOr<bool> DecodeBase64(std::string_view text, const StopCheck& stop, std::string* bytes);

}  // namespace maxsim::http
