// Reads text files line by line.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"

namespace maxsim {

inline constexpr std::string_view kBlanks = " \t\r";

inline std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Calls visit(number, line) for every line that is not blank, until a call fails. Returns that call's error. The number
// counts all lines, blank ones too, from 1.
template <typename Visit>
absl::Status ForEachLine(std::string_view text, Visit visit) {
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (Trim(line).empty()) continue;
    absl::Status status = visit(number, line);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Parses the whole of `text` as a number. Returns false if it is not a number; `number` must then not be used.
template <typename Number>
bool ParseNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace maxsim
