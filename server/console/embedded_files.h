// The bytes of the files in server/console/assets, which the build embeds.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace maxsim::console {

struct EmbeddedFile {
  std::string_view name;  // "index.html"
  std::string_view bytes;
};

absl::Span<const EmbeddedFile> EmbeddedFiles();

}  // namespace maxsim::console
