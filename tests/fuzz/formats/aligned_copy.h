// Makes an aligned copy of an input, for targets whose parsers expect memory as aligned as a mapped file.
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

// Returns a copy of the bytes whose address is a multiple of `alignment`, a power of two. The memory has one extra
// byte, because the input may be empty. A sanitizer reports reads past that byte.
inline std::unique_ptr<char, FreeMemory> AlignedCopy(std::string_view bytes, size_t alignment) {
  void* data = nullptr;
  Require(posix_memalign(&data, alignment, bytes.size() + 1) == 0, "the target has memory");
  std::memcpy(data, bytes.data(), bytes.size());
  return std::unique_ptr<char, FreeMemory>(static_cast<char*>(data));
}

}  // namespace maxsim::fuzz
