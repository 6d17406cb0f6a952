// Checks UTF-8 and makes messages. Cat is an absl::StrCat that also takes std::string_view: in some distributions'
// builds of Abseil, absl::string_view is a different type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace maxsim {

template <typename T>
decltype(auto) ForStrCat(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return absl::string_view(value.data(), value.size());
  } else {
    return (value);
  }
}

template <typename... Args>
std::string Cat(const Args&... args) {
  return absl::StrCat(ForStrCat(args)...);
}

// Returns INVALID_ARGUMENT with the concatenated arguments as its message.
template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(Cat(args...));
}

// Returns true if `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF).
bool IsUtf8(std::string_view text);

// Turns untrusted text into printable UTF-8 for a message, of at most `max_bytes`. Replaces control characters, and all
// bytes beyond ASCII if the text is not UTF-8.
std::string Printable(std::string_view text, size_t max_bytes);

// Returns printable text in quotation marks, shortened to fit into a line.
std::string Quote(std::string_view text);

// Returns the status with `prefix` before its message.
absl::Status Prefix(std::string_view prefix, const absl::Status& status);

// Returns the status with another message. Keeps its payloads, such as RetryInfo.
absl::Status WithMessage(const absl::Status& status, std::string_view message);

}  // namespace maxsim
