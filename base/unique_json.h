// Parses JSON into a value and refuses objects with a repeated key, of which nlohmann's own parser silently keeps the
// last one. It takes linear time. For texts whose size the caller bounds; formats that may be large have a reader of
// their own (json_events.h).
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
