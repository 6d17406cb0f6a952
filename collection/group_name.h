// The names of groups (servers of a cluster that hold the same partitions). Routers' configurations and the layouts of
// collections use them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace maxsim::collection {

inline constexpr size_t kMaxGroupNameBytes = 64;

// Returns whether `name` has 1 to 64 characters of A-Z a-z 0-9 . _ -
inline bool IsGroupName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxGroupNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

}  // namespace maxsim::collection
