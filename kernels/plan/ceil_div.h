// Division that rounds up.
#pragma once

#include <cstdint>

namespace maxsim {

// Returns a / b rounded up, of numbers that are not negative.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace maxsim
