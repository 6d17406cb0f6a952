// What the command lines check of their values and CLI11 does not.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"

namespace maxsim::command_line {

// For CLI::Option::check beside CLI::Range, of which NaN is never out. A reason, or "".
inline std::string NotNan(const std::string& text) {
  double value = 0;
  return absl::SimpleAtod(text, &value) && std::isnan(value) ? "\"" + text + "\" is not a number" : std::string();
}

}  // namespace maxsim::command_line
