// Rounds up, so that an upper bound stays an upper bound when it is stored in fewer bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/scalar_type.h"

namespace maxsim {

// Bounds are multiplied by this factor. It covers the rounding of a dozen FP64 operations, and of sums of up to kMaxDim
// positive terms.
inline constexpr double kInflation = 1 + 0x1p-40;

// Returns the smallest FP32 number that is at least `value`, or infinity if there is none.
inline float RoundUpToF32(double value) {
  const auto rounded = static_cast<float>(value);
  return static_cast<double>(rounded) < value ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
                                              : rounded;
}

// Returns the bits of the smallest F16 number that is at least `value`, or of infinity if there is none. `value` must
// not be negative.
inline uint16_t RoundUpToF16(double value) {
  const float single = RoundUpToF32(value);
  const uint16_t bits = F32ToF16(single);
  return F16ToF32(bits) < single ? static_cast<uint16_t>(bits + 1) : bits;
}

}  // namespace maxsim
