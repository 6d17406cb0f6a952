// The hashes of document ids that the id indexes use.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace maxsim::store {

inline uint64_t HashOfId(std::string_view id) { return XXH3_64bits(id.data(), id.size()); }

// The finaliser of splitmix64. It is a bijection: no two integers have the same 64-bit hash.
inline uint64_t HashOfId(int64_t id) {
  auto value = static_cast<uint64_t>(id) + 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

}  // namespace maxsim::store
