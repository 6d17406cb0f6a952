// Finds blank texts, for which encoders return no vectors.
#pragma once

#include <string_view>

namespace maxsim::service {

// Returns true for a text that is empty or has nothing but white space, Unicode's included. `text` need not be UTF-8.
bool IsBlank(std::string_view text);

}  // namespace maxsim::service
