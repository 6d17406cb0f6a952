// Checks of command-line values that CLI11 does not have.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/numbers.h"

namespace maxsim::command_line {

// For CLI::Option::check: refuses NaN, which CLI::Range lets through. Returns the reason, or "" if the value is fine.
inline std::string NotNan(const std::string& text) {
  double value = 0;
  return absl::SimpleAtod(text, &value) && std::isnan(value) ? "\"" + text + "\" is not a number" : std::string();
}

}  // namespace maxsim::command_line
