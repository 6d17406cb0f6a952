#include "server/service/request/blank_text.h"

#include <algorithm>
#include <array>

namespace maxsim::service {
namespace {

// White space as Python's str.isspace defines it, because maxsim-encoder refuses blank texts by this definition. Beyond
// ASCII: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
constexpr std::string_view kAscii = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
constexpr std::array<std::string_view, 19> kLonger = {
    "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83",
    "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
    "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

}  // namespace

bool IsBlank(std::string_view text) {
  while (!text.empty()) {
    if (kAscii.find(text.front()) != kAscii.npos) {
      text.remove_prefix(1);
      continue;
    }
    const auto* const space =
        std::find_if(kLonger.begin(), kLonger.end(), [&](std::string_view one) { return text.starts_with(one); });
    if (space == kLonger.end()) return false;
    text.remove_prefix(space->size());
  }
  return true;
}

}  // namespace maxsim::service
