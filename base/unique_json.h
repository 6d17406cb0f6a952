// Parses JSON into a value, and refuses an object that has a key twice: nlohmann's own parser would silently keep the
// last of the two. Takes linear time. The caller bounds the size of the text. Large formats have their own readers
// (json_events.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace maxsim {

// Returns the value of the whole text. INVALID_ARGUMENT for malformed JSON, for nesting deeper than `max_depth`
// containers, and for a repeated key. For the last one, `*repeated_key` (may be null) becomes the key's path, such as
// "query.dtype" or "[2].id"; otherwise it becomes "".
absl::StatusOr<nlohmann::json> ParseUniqueJson(std::string_view text, int max_depth,
                                               std::string* repeated_key = nullptr);

}  // namespace maxsim
