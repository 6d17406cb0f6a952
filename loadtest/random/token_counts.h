// The distribution of the token counts of queries or documents: "32", "uniform:8:64", "lognormal:MEAN:MIN:MAX".
// Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loadtest/random/random.h"

namespace maxsim::loadtest {

class TokenCounts {
 public:
  // Makes the distribution that is always `count` tokens.
  explicit TokenCounts(uint32_t count = 32) : text_(std::to_string(count)), min_(count), max_(count) {}

  // Parses a distribution. Returns INVALID_ARGUMENT naming `text` and what is allowed: 1 <= MIN <= MAX <= 65536, and
  // MIN <= MEAN <= MAX. A log-normal count has a sigma of 0.5, about that of text passages. It is clamped to the
  // bounds, which changes its mean a little.
  static absl::StatusOr<TokenCounts> Parse(std::string_view text);

  uint32_t Sample(Random& random) const;
  uint32_t max() const { return max_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  uint32_t min_, max_;
  double log_mean_ = 0;
  bool lognormal_ = false;
};

}  // namespace maxsim::loadtest
