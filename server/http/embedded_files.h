// The bytes of server/http/openapi.json, which the build embeds in the program. Internal to server/http.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace maxsim::http {

struct EmbeddedFile {
  std::string_view name;  // "openapi.json"
  std::string_view bytes;
};

absl::Span<const EmbeddedFile> EmbeddedFiles();

}  // namespace maxsim::http
