#include "server/config/values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace maxsim::config {
namespace {

absl::Status Refuse(std::string_view text, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("\"", std::string(text), "\" is not ", std::string(expected)));
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

absl::StatusOr<double> ParseNumber(std::string_view text) {
  double number = 0;
  // Refuse what SimpleAtod also accepts: "nan", "inf", "1e3" and "0x10".
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos ||
      !absl::SimpleAtod(std::string(text), &number)) {
    return Refuse(text, "a number (such as 0.25)");
  }
  return number;
}

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
