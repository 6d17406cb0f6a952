// Picks members of payloads, which are JSON objects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace maxsim::service {

// Returns the payload with only the top-level members that `fields` names, in the payload's order. Copies the bytes of
// their values, because numbers would lose digits if they were parsed and written again. If the payload has a name
// twice, returns both members. Returns a payload that is empty or not a JSON object unchanged. Takes time in proportion
// to the payload.
std::string SelectFields(std::string_view payload, const std::vector<std::string>& fields);

}  // namespace maxsim::service
