// Base64 of any length, decoded so that it can be stopped.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/stop.h"

namespace maxsim::http {

// Decodes `text` and appends the bytes to `bytes`, by the rules of absl::Base64Unescape: white space anywhere, with or
// without padding. False if it is not base64. `stop` (may be null) is called every megabyte, and its error returned.
absl::StatusOr<bool> DecodeBase64(std::string_view text, const StopCheck& stop, std::string* bytes);

}  // namespace maxsim::http
