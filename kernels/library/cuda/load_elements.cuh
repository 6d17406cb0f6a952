// Loads rows that do not begin at multiples of 16 bytes into shared memory.
#pragma once

#include <cstdint>

namespace maxsim::library {

// Copies `num_bytes` bytes of each row from `begin_bytes` on, with zeros past the row's end. Copies element by element,
// for rows that do not begin at multiples of 16 bytes, which LoadChunk and LoadRows need.
template <int kThreads, int kElementBytes>
__device__ __forceinline__ void LoadElements(uint8_t* shared, int pitch, const uint8_t* rows, int num_rows,
                                             int64_t row_bytes, int64_t begin_bytes, int num_bytes, int thread) {
  const int elements = num_bytes / kElementBytes;
  for (int i = thread; i < num_rows * elements; i += kThreads) {
    const int row = i / elements;
    const int column = (i - row * elements) * kElementBytes;
    uint8_t* const target = shared + row * pitch + column;
    const bool present = begin_bytes + column < row_bytes;
    const uint8_t* const source = rows + row * row_bytes + begin_bytes + column;
    if constexpr (kElementBytes == 4) {
      *reinterpret_cast<uint32_t*>(target) = present ? *reinterpret_cast<const uint32_t*>(source) : 0u;
    } else if constexpr (kElementBytes == 2) {
      *reinterpret_cast<uint16_t*>(target) = present ? *reinterpret_cast<const uint16_t*>(source) : uint16_t{0};
    } else {
      *target = present ? *source : uint8_t{0};
    }
  }
}

}  // namespace maxsim::library
