// Finds blank texts, for which encoders return no vectors.
#pragma once

#include <string_view>

namespace maxsim::service {

// Returns true if the text is empty or has only white space, including that of Unicode. The text need not be UTF-8.
bool IsBlank(std::string_view text);

}  // namespace maxsim::service
