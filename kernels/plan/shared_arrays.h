// Computes where consecutive arrays begin in a thread block's shared memory. The host uses it to compute their total
// size, and the kernel to find the arrays, so the two cannot disagree.
#pragma once

#include <cstdint>

namespace maxsim {

// A cursor that hands out arrays and counts their bytes. If no array needs a stricter alignment than the one before it,
// no offset is rounded. A kernel then needs only one addition for each array whose size is known only at run time.
class SharedArrays {
 public:
  // `alignment` is that of the shared memory, a power of two.
  constexpr explicit SharedArrays(int32_t alignment) : alignment_(alignment) {}

  // Returns where an array of `count` elements begins, in bytes from the beginning of the shared memory.
  template <class T>
  constexpr int32_t Take(int32_t count) {
    return TakeBytes(count * static_cast<int32_t>(sizeof(T)), static_cast<int32_t>(alignof(T)));
  }

  // Returns where an array of `bytes` bytes begins, in bytes. `alignment` is a power of two that divides `bytes`.
  constexpr int32_t TakeBytes(int32_t bytes, int32_t alignment) {
    if (alignment > alignment_) bytes_ = (bytes_ + alignment - 1) / alignment * alignment;
    alignment_ = alignment;
    const int32_t begin = bytes_;
    bytes_ += bytes;
    return begin;
  }

  // Returns the bytes up to the end of the last array.
  constexpr int32_t bytes() const { return bytes_; }

 private:
  int32_t alignment_;  // a power of two that divides bytes_
  int32_t bytes_ = 0;
};

}  // namespace maxsim
