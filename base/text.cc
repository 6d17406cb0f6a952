#include "base/text.h"

#include "absl/strings/str_cat.h"

namespace maxsim {

bool IsUtf8(std::string_view text) {
  const auto* next = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = next + text.size();
  while (next < end) {
    const unsigned char lead = *next++;
    if (lead < 0x80) continue;
    int following;
    unsigned char low = 0x80;  // the range of the second byte, narrower after some first bytes
    unsigned char high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      following = 1;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      following = 2;
      if (lead == 0xe0) low = 0xa0;
      if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      following = 3;
      if (lead == 0xf0) low = 0x90;
      if (lead == 0xf4) high = 0x8f;
    } else {
      return false;
    }
    if (end - next < following || next[0] < low || next[0] > high) return false;
    for (int idx = 1; idx < following; ++idx) {
      if (next[idx] < 0x80 || next[idx] > 0xbf) return false;
    }
    next += following;
  }
  return true;
}

std::string Printable(std::string_view text, size_t max_bytes) {
  const bool is_utf8 = IsUtf8(text);
  bool shortened = false;
  if (text.size() > max_bytes) {
    size_t end = max_bytes;
    // If the cut is in the middle of a character, it is moved back over the character's continuation bytes.
    while (is_utf8 && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text = text.substr(0, end);
    shortened = true;
  }
  std::string printable;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    // U+0080 .. U+009F are controls, too. For example, U+009B begins an escape sequence, as ESC [ does.
    const bool is_c1 =
        is_utf8 && byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    printable += byte < 0x20 || byte == 0x7f || is_c1 || (byte >= 0x80 && !is_utf8) ? '?' : text[at];
    if (is_c1) ++at;
  }
  if (shortened) printable += "...";
  return printable;
}

std::string Quote(std::string_view text) {
  constexpr size_t kLongest = 80;
  return Cat("\"", Printable(text, kLongest), "\"");
}

absl::Status Prefix(std::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(ForStrCat(prefix), status.message()));
}

absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), absl::string_view(message.data(), message.size()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace maxsim
