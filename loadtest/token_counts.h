// How many tokens queries and documents have: "32", "uniform:8:64", "lognormal:MEAN:MIN:MAX".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loadtest/random.h"

namespace maxsim::loadtest {

class TokenCounts {
 public:
  // Always `count` tokens.
  explicit TokenCounts(uint32_t count = 32) : text_(std::to_string(count)), min_(count), max_(count) {}

  // INVALID_ARGUMENT naming `text` and what is allowed: 1 <= MIN <= MAX <= 65536, and MIN <= MEAN <= MAX. A log-normal
  // count has sigma 0.5, as text chunks have about, and is cut to the bounds, which moves its mean a little.
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
