// Makes an aligned copy of an input, for targets whose parsers expect the alignment of a mapped file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "tests/fuzz/target.h"

namespace maxsim::fuzz {

struct FreeMemory {
  void operator()(char* data) const { std::free(data); }
};

// Returns a copy of the bytes at a multiple of `alignment`, a power of two. The memory is one byte longer than the
// input, which may be empty; a sanitizer reports reads past that byte.
inline std::unique_ptr<char, FreeMemory> AlignedCopy(std::string_view bytes, size_t alignment) {
  void* data = nullptr;
  Require(posix_memalign(&data, alignment, bytes.size() + 1) == 0, "the target has memory");
  std::memcpy(data, bytes.data(), bytes.size());
  return std::unique_ptr<char, FreeMemory>(static_cast<char*>(data));
}

}  // namespace maxsim::fuzz
