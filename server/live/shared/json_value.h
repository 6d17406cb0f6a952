// What the readers of JSON values in the key-value store have in common. The functions are pure.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace maxsim::live {

// Returns a parsed value as one short line for an error. A list or an object is only named as such: its text could be
// long, and nlohmann writes it with one recursion per level, so that 100,000 levels (200 KB) would overflow the stack.
std::string QuoteJson(const nlohmann::json& value);

}  // namespace maxsim::live
