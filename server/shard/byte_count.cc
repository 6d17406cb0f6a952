#include "server/shard/byte_count.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "server/shard/text.h"

namespace maxsim::shard {

absl::StatusOr<int64_t> ParseByteCount(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 14> kUnits = {{{"", 1},
                                                                           {"b", 1},
                                                                           {"k", 1e3},
                                                                           {"kb", 1e3},
                                                                           {"m", 1e6},
                                                                           {"mb", 1e6},
                                                                           {"g", 1e9},
                                                                           {"gb", 1e9},
                                                                           {"t", 1e12},
                                                                           {"tb", 1e12},
                                                                           {"kib", 0x1p10},
                                                                           {"mib", 0x1p20},
                                                                           {"gib", 0x1p30},
                                                                           {"tib", 0x1p40}}};
  const absl::Status refused = Invalid(Quote(text), " is no size; examples: 512M (10^6), 4GiB (2^30), 1500000");
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number(text.substr(0, digits));
  std::string unit(digits == std::string_view::npos ? std::string_view() : text.substr(digits));
  absl::StripAsciiWhitespace(&unit);
  absl::AsciiStrToLower(&unit);
  if (!unit.empty() && unit.back() == 'i') unit += 'b';  // "4Gi"
  double value = 0;
  if (!absl::SimpleAtod(number, &value)) return refused;
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::floor(value * factor);
    if (!(bytes >= 1) || bytes >= 0x1p63) return refused;
    return static_cast<int64_t>(bytes);
  }
  return refused;
}

}  // namespace maxsim::shard
