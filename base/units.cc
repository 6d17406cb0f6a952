#include "base/units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace maxsim {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// The largest unit comes first, because formatting uses the first one that divides the number.
constexpr std::array<Unit, 8> kCountUnits = {{{"Ti", uint64_t{1} << 40},
                                              {"Gi", uint64_t{1} << 30},
                                              {"Mi", uint64_t{1} << 20},
                                              {"Ki", uint64_t{1} << 10},
                                              {"T", 1'000'000'000'000},
                                              {"G", 1'000'000'000},
                                              {"M", 1'000'000},
                                              {"k", 1'000}}};

absl::Status Refuse(std::string_view text, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("\"", std::string(text), "\" is not ", std::string(expected)));
}

// Parses digits, and then a unit out of kCountUnits with `suffix` appended. The suffix is "B" for bytes, and may also
// follow the digits without a unit.
absl::StatusOr<uint64_t> ParseWithUnit(std::string_view text, std::string_view suffix, std::string_view expected) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number(text.substr(0, digits));
  std::string_view unit = text.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  uint64_t factor = 1;
  if (!unit.empty() && unit != suffix) {
    const auto* it = std::find_if(kCountUnits.begin(), kCountUnits.end(), [&](const Unit& candidate) {
      return unit == std::string(candidate.name) + std::string(suffix);
    });
    if (it == kCountUnits.end()) return Refuse(text, expected);
    factor = it->factor;
  }
  uint64_t whole = 0;
  if (number.find('.') == std::string::npos) {
    if (number.empty() || !absl::SimpleAtoi(number, &whole)) return Refuse(text, expected);
    if (whole > std::numeric_limits<uint64_t>::max() / factor) return Refuse(text, "below 2^64");
    return whole * factor;
  }
  double fraction = 0;
  if (!absl::SimpleAtod(number, &fraction)) return Refuse(text, expected);
  const double value = fraction * static_cast<double>(factor);
  if (value >= 9.2e18) return Refuse(text, "below 2^63");
  if (value != std::floor(value)) return Refuse(text, "a whole number");
  return static_cast<uint64_t>(value);
}

std::string FormatWithUnit(uint64_t value, std::string_view suffix) {
  for (const Unit& unit : kCountUnits) {
    if (value != 0 && value % unit.factor == 0) {
      return absl::StrCat(value / unit.factor, std::string(unit.name), std::string(suffix));
    }
  }
  return absl::StrCat(value);
}

}  // namespace

absl::StatusOr<uint64_t> ParseCount(std::string_view text) {
  return ParseWithUnit(text, "", "a whole number (suffixes: k M G T, Ki Mi Gi Ti)");
}

std::string WriteCount(uint64_t count) {
  // Short numbers are easier to read without a unit.
  return count < 1'000'000 ? absl::StrCat(count) : FormatWithUnit(count, "");
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  return ParseWithUnit(text, "B", "a size (such as 512MiB, 4GiB, 10GB or 1048576)");
}

std::string WriteBytes(uint64_t bytes) { return FormatWithUnit(bytes, "B"); }

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

std::string FormatBytesExactly(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  const auto count = static_cast<int64_t>(std::min<uint64_t>(bytes, std::numeric_limits<int64_t>::max()));
  return absl::StrCat(FormatBytes(count), " (", FormatCount(count), " bytes)");
}

std::string FormatCount(int64_t count) {
  std::string text = absl::StrCat(count);
  for (size_t at = text.size(); at > 3 && text[at - 4] != '-'; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace maxsim
