// Parses JSON into a value, and refuses objects with repeated keys. (nlohmann's own parser would silently keep the last
// one.) Takes linear time. The caller must limit the size of the text. Large formats have separate readers
// (json_events.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace maxsim {

// Returns the value of the whole text. Returns INVALID_ARGUMENT for malformed JSON, for nesting deeper than `max_depth`
// containers, and for a repeated key. Sets `*repeated_key` (may be null) to the path of the repeated key, such as
// "query.dtype" or "[2].id", and to "" if no key is repeated.
absl::StatusOr<nlohmann::json> ParseUniqueJson(std::string_view text, int max_depth,
                                               std::string* repeated_key = nullptr);

}  // namespace maxsim
