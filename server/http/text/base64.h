// Decodes base64 of any length. A StopSignal can end the decoding early.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/stop.h"

namespace maxsim::http {

// Decodes `text` and appends the bytes to `bytes`, by the rules of absl::Base64Unescape: white space anywhere, with or
// without padding. Returns false if `text` is not base64. Calls `stop` (may be null) every megabyte, and returns its
// error.
absl::StatusOr<bool> DecodeBase64(std::string_view text, const StopCheck& stop, std::string* bytes);

}  // namespace maxsim::http
