#include "server/shard/text.h"

#include <array>

#include "absl/strings/str_format.h"

namespace maxsim::shard {

std::string Quote(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kLongest)) {
    quoted += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  quoted += text.size() > kLongest ? "...\"" : "\"";
  return quoted;
}

absl::Status Prefix(std::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(ForStrCat(prefix), status.message()));
}

std::string FormatBytes(int64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.995 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.2f %s", value, kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  std::string text = absl::StrCat(count);
  for (size_t at = text.size(); at > 3 && text[at - 4] != '-'; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace maxsim::shard
