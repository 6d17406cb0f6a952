// This header divides integers and rounds up.
#pragma once

#include <cstdint>

namespace maxsim {

// Returns a / b rounded up. Neither number is negative.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace maxsim
