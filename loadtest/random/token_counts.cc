#include "loadtest/random/token_counts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace maxsim::loadtest {
namespace {

constexpr uint32_t kMaxTokens = 65536;
constexpr double kSigma = 0.5;

}  // namespace

absl::StatusOr<TokenCounts> TokenCounts::Parse(std::string_view text) {
  const absl::string_view view(text.data(), text.size());
  const std::vector<std::string> parts = absl::StrSplit(view, ':');
  const auto count = [](const std::string& part, uint32_t& value) {
    return absl::SimpleAtoi(part, &value) && value >= 1 && value <= kMaxTokens;
  };
  TokenCounts counts;
  counts.text_ = std::string(text);
  double mean = 0;
  if (parts.size() == 1 && count(parts[0], counts.min_)) {
    counts.max_ = counts.min_;
    return counts;
  }
  if (parts.size() == 3 && parts[0] == "uniform" && count(parts[1], counts.min_) && count(parts[2], counts.max_) &&
      counts.min_ <= counts.max_) {
    return counts;
  }
  if (parts.size() == 4 && parts[0] == "lognormal" && absl::SimpleAtod(parts[1], &mean) &&
      count(parts[2], counts.min_) && count(parts[3], counts.max_) && counts.min_ <= mean && mean <= counts.max_) {
    counts.lognormal_ = true;
    counts.log_mean_ = std::log(mean) - kSigma * kSigma / 2;
    return counts;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", view, "\" is not a token count: must be N, uniform:MIN:MAX or lognormal:MEAN:MIN:MAX, from 1 to ",
      kMaxTokens, ", with MIN <= MEAN <= MAX"));
}

uint32_t TokenCounts::Sample(Random& random) const {
  if (!lognormal_) return min_ + static_cast<uint32_t>(random.Below(max_ - min_ + 1));
  const double value = std::round(std::exp(log_mean_ + kSigma * random.Normal()));
  return static_cast<uint32_t>(std::clamp(value, static_cast<double>(min_), static_cast<double>(max_)));
}

}  // namespace maxsim::loadtest
