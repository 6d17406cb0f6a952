// Reads the structures of the library's headers, of any version that the caller may have, and checks their numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// Returns the text of an error with the structure, its member, the value, and what is accepted.
inline std::string Text(const char* name, const char* member, int64_t value, const std::string& accepted) {
  return std::string(name) + member + " is " + std::to_string(value) + "; " + accepted;
}

// Copies a structure of the caller's version. Members that the caller's version lacks become zero. If the caller's
// version has members that this library does not know, they must be zero.
template <typename Struct>
Status ReadStruct(const char* name, const Struct* given, size_t first_size, Struct* target) {
  if (given == nullptr) return InvalidArgument(std::string(name) + " is null");
  const size_t size = given->struct_size;
  if (size < first_size) {
    return InvalidArgument(Text(name, ".struct_size", static_cast<int64_t>(size),
                                "must be sizeof the structure, at least " + std::to_string(first_size)));
  }
  const char* const bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof(Struct)) {
    if (size > size_t{1} << 16 ||
        std::any_of(bytes + sizeof(Struct), bytes + size, [](char byte) { return byte != 0; })) {
      return Unsupported(
          Text(name, ".struct_size", static_cast<int64_t>(size),
               "it has members that this library, version " + std::string(maxsim_version()) + ", does not know"));
    }
  }
  *target = {};
  std::memcpy(static_cast<void*>(target), bytes, std::min(size, sizeof(Struct)));
  return {};
}

inline Status CheckRange(const char* name, const char* member, int64_t value, int64_t smallest, int64_t largest) {
  if (value >= smallest && value <= largest) return {};
  return InvalidArgument(
      Text(name, member, value, "must be " + std::to_string(smallest) + " to " + std::to_string(largest)));
}

inline Status CheckPresent(const char* name, const char* member, const void* pointer, bool wanted) {
  if (pointer != nullptr || !wanted) return {};
  return InvalidArgument(std::string(name) + member + " is null");
}

inline Status CheckAbsent(const char* name, const char* member, const void* pointer, bool unwanted, const char* where) {
  if (pointer == nullptr || !unwanted) return {};
  return InvalidArgument(std::string(name) + member + " is not null; there is none " + where);
}

// Returns the first argument that is an error; OK if there is none.
template <typename... Statuses>
Status First(Status status, Statuses... others) {
  if constexpr (sizeof...(others) == 0) {
    return status;
  } else {
    return status.ok() ? First(std::move(others)...) : status;
  }
}

// Checks that a call's workspace has at least `wanted` bytes and is aligned. `source` is the name, for the error, of
// the function that returns `wanted`.
inline Status CheckWorkspaceMemory(const void* workspace, size_t bytes, size_t wanted, const char* source) {
  if (wanted == 0) return {};
  if (workspace == nullptr || bytes < wanted) {
    return InvalidArgument("call.workspace_bytes is " + std::to_string(bytes) + "; " + source + " says " +
                           std::to_string(wanted));
  }
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
    return InvalidArgument("call.workspace is not aligned to 256 bytes");
  }
  return {};
}

}  // namespace maxsim::library
