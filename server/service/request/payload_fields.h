// Picks members of payloads, which are JSON objects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace maxsim::service {

// Returns the object with those of its top-level members that `fields` names, in the payload's order and with the bytes
// of their values: parsed and written anew, numbers would lose digits. Both members of a name that appears twice are
// returned. A payload that is empty, or no JSON object, is returned as it is. Takes time in proportion to the payload.
std::string SelectFields(std::string_view payload, const std::vector<std::string>& fields);

}  // namespace maxsim::service
