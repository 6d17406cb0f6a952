// Documents that are not stored as vectors.
#pragma once

#include <cstdint>

namespace maxsim::library {

class RowDecoder {
 public:
  virtual ~RowDecoder() = default;

  // Writes the vector of a row, [dim] in FP32. Thread-safe.
  virtual void Decode(int64_t row, float* vector) const = 0;
};

}  // namespace maxsim::library
