#include "server/config/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace maxsim::config {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// Largest first: formatting takes the first one that divides.
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

// Digits, then a unit out of kCountUnits followed by `suffix` ("B" for bytes, which may also stand alone).
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

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substituted}));
    }
  }
  return row[b.size()];
}

}  // namespace

absl::StatusOr<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return Refuse(text, "true or false");
}

absl::StatusOr<uint64_t> ParseCount(std::string_view text) {
  return ParseWithUnit(text, "", "a whole number (suffixes: k M G T, Ki Mi Gi Ti)");
}

std::string FormatCount(uint64_t count) {
  // Short numbers read better without a unit.
  return count < 1'000'000 ? absl::StrCat(count) : FormatWithUnit(count, "");
}

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  return ParseWithUnit(text, "B", "a size (such as 512MiB, 4GiB, 10GB or 1048576)");
}

std::string FormatBytes(uint64_t bytes) { return FormatWithUnit(bytes, "B"); }

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(std::string(text), &duration)) {
    return Refuse(text, "a duration (such as 250ms, 2s or 1m30s)");
  }
  if (duration < absl::ZeroDuration()) return Refuse(text, "a duration of 0 or more");
  if (duration == absl::InfiniteDuration()) return Refuse(text, "a finite duration");
  return duration;
}

std::string Address::ToString() const {
  const bool brackets = host.find(':') != std::string::npos;
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]:" : ":", port);
}

absl::StatusOr<std::vector<int>> ParseDevices(std::string_view text) {
  std::vector<int> numbers;
  if (text == "all") return numbers;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    int number = 0;
    if (part.find_first_not_of("0123456789") != std::string::npos || !absl::SimpleAtoi(part, &number) ||
        number > kMaxDeviceNumber) {
      return Refuse(text, absl::StrCat("all, or numbers of 0 to ", kMaxDeviceNumber, " with commas between them"));
    }
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", std::string(text), "\" names device ", number, " twice"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::string FormatDevices(const std::vector<int>& numbers) {
  return numbers.empty() ? "all" : absl::StrJoin(numbers, ",");
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  constexpr std::string_view kExpected = "an address (host:port, such as 0.0.0.0:7070 or [::]:7070)";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return Refuse(text, kExpected);
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return Refuse(text, kExpected);
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Refuse(text, kExpected);
  }
  const std::string port_text(text.substr(colon + 1));
  int port = -1;
  if (port_text.empty() || !absl::ascii_isdigit(port_text.front()) || !absl::SimpleAtoi(port_text, &port) || port < 0 ||
      port > 65535) {
    return Refuse(text, absl::StrCat(std::string(kExpected), " with a port of 0 to 65535"));
  }
  return Address{std::string(host), port};
}

std::string Nearest(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  size_t best_distance = name.size() / 3 + 2;
  for (const std::string& candidate : names) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace maxsim::config
